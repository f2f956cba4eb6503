//! Credit: what this gateway's account has, and what its operator does with it.

use super::ApiState;
use super::extract::{Limit, Query, json};
use super::model::text;
use super::problem::Problem;
use super::time::rfc3339;
use crate::driver::{Unanswered, number};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use node_core::contract::{Order, Refusal};
use node_core::goods::Kind;
use node_core::ids::UnitId;
use node_core::ledger::bank::NotInvited;
use node_core::ledger::{Line, Page, Why};
use node_core::money::Micro;
use node_core::{Command, NodeEvent, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// For an answer of the bank. Our choice: one that restarts meanwhile is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

const LINES: Limit = Limit { usual: 100, most: 1000 };

/// An account at the swarm's bank. All amounts are micro-credits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Wallet {
    /// Whose account it is.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    node: NodeId,
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    bank: NodeId,
    balance: u64,
    /// Put aside for places that were bought and are not settled yet.
    held: u64,
    /// Orders to the bank that it has not answered yet.
    pending: usize,
    /// The number of the first line here, and how many there have been; the oldest may be gone.
    first: u64,
    all: u64,
    /// The statement, oldest first.
    statement: Vec<StatementLine>,
    /// Of all accounts, of what is held and of the mint, if this gateway is the bank: always 0.
    #[schema(value_type = Option<i64>)]
    sum: Option<i128>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StatementLine {
    /// RFC 3339, UTC, by the bank's clock.
    #[schema(format = DateTime)]
    at: String,
    /// Below 0 what went.
    amount: i64,
    /// Behind it.
    balance: u64,
    /// `invite`, `minted`, `sent`, `received`, `held`, `returned`, `earned` or `fee`; for space `space_held`,
    /// `space_returned` and `kept`.
    why: &'static str,
    /// The other side of a transfer.
    with: Option<String>,
    /// The unit that it was for, and its job.
    job: Option<String>,
    unit: Option<u32>,
    /// The first half of the content id of the file that it was for.
    file: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Lines from this number on; the newest if there are not so many.
    from: Option<u64>,
    limit: Option<u32>,
    /// Another account, if this gateway is the bank.
    node: Option<String>,
}

/// New credit, on the word of the bank's operator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewInvite {
    /// Micro-credits.
    #[schema(minimum = 1)]
    amount: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Invite {
    /// For whoever shows it first.
    #[schema(example = "6f1c0a52e9b34d7788d1c5f0aa93be14")]
    code: String,
    amount: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Redeem {
    code: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Transfer {
    /// A node's id, 64 hexadecimal digits.
    to: String,
    /// Micro-credits.
    #[schema(minimum = 1)]
    amount: u64,
}

/// Read an account.
///
/// This gateway's: balance, what is held, and its statement. The bank shows anybody's (`node`).
#[utoipa::path(
    get, operation_id = "getWallet", path = "/api/v1/wallet", tag = "operation", security(("token" = [])),
    params(
        ("from" = Option<u64>, Query, description = "Lines from this number on"),
        ("limit" = Option<u32>, Query, description = "At most 1,000; 100 if absent"),
        ("node" = Option<String>, Query, description = "Another account, if this gateway is the bank"),
    ),
    responses(
        (status = 200, body = Wallet),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The bank does not answer"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn get(
    State(state): State<ApiState>,
    Query(Asked { from, limit, node }): Query<Asked>,
) -> Result<Json<Wallet>, Problem> {
    let limit = LINES.of(limit)?;
    let me = state.node.id();
    let of = match node {
        None => me,
        Some(text) => parse_node("node", &text)?,
    };
    let (bank, pending, sum) = state
        .node
        .read(|node, _| (node.bank(), node.orders_pending(), node.books().map(|books| books.sum())))
        .await?;
    let bank = bank.ok_or_else(no_bank)?;
    if of != me && sum.is_none() {
        let why =
            format!("this gateway sees its own account only; the bank is {bank}, and its gateway sees all");
        return Err(Problem::field("node", why));
    }
    let number = number();
    // Beyond all lines the newest are given.
    let command = Command::Statement { number, of, from: from.unwrap_or(u64::MAX), limit };
    let page = answer(&state, command, |event| match event {
        NodeEvent::Statement { number: to, page } if to == number => Some(page),
        _ => None,
    });
    Ok(Json(Wallet::of(page.await?, bank, pending, sum)))
}

/// Make an invite.
///
/// New credit for whoever shows the code first. The bank's operator alone can.
#[utoipa::path(
    post, operation_id = "createInvite", path = "/api/v1/wallet/invites", tag = "operation", security(("token" = [])),
    request_body = NewInvite,
    responses(
        (status = 201, body = Invite),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn invite(
    State(state): State<ApiState>,
    request: Request,
) -> Result<(StatusCode, Json<Invite>), Problem> {
    let NewInvite { amount } = json(request, 1 << 10).await?;
    let number = number();
    let made = answer(&state, Command::Invite { number, amount: Micro(amount) }, |event| match event {
        NodeEvent::Invited { number: to, made } if to == number => Some(made),
        _ => None,
    });
    let code = made.await?.map_err(|why| match why {
        NotInvited::NotBank => Problem::new(StatusCode::CONFLICT, why.to_string()),
        // It can be tried again later.
        NotInvited::Closed | NotInvited::Refused(Refusal::Full) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string())
        }
        NotInvited::Refused(refusal) => Problem::field("amount", refusal),
    })?;
    let code = code.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((StatusCode::CREATED, Json(Invite { code, amount })))
}

/// Redeem an invite.
///
/// Its credit is this gateway's from then on.
#[utoipa::path(
    post, operation_id = "redeemInvite", path = "/api/v1/wallet/redeem", tag = "operation", security(("token" = [])),
    request_body = Redeem,
    responses(
        (status = 200, body = Wallet),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn redeem(State(state): State<ApiState>, request: Request) -> Result<Json<Wallet>, Problem> {
    let Redeem { code } = json(request, 1 << 10).await?;
    let code = parse_code(code.trim())
        .ok_or_else(|| Problem::field("code", "an invite's code has 32 hexadecimal digits"))?;
    order(&state, "code", Order::Redeem { code }).await?;
    now(state).await
}

/// Send credit.
///
/// From this gateway's account to a node's.
#[utoipa::path(
    post, operation_id = "sendCredit", path = "/api/v1/wallet/transfers", tag = "operation", security(("token" = [])),
    request_body = Transfer,
    responses(
        (status = 200, body = Wallet),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn transfer(
    State(state): State<ApiState>,
    request: Request,
) -> Result<Json<Wallet>, Problem> {
    let Transfer { to, amount } = json(request, 1 << 10).await?;
    let to = parse_node("to", &to)?;
    order(&state, "amount", Order::Transfer { to, amount: Micro(amount) }).await?;
    now(state).await
}

async fn now(state: ApiState) -> Result<Json<Wallet>, Problem> {
    get(State(state), Query(Asked { from: None, limit: None, node: None })).await
}

async fn order(state: &ApiState, field: &str, order: Order) -> Result<(), Problem> {
    let bank = state.node.read(|node, _| node.bank()).await?;
    bank.ok_or_else(no_bank)?;
    let number = number();
    let outcome = answer(state, Command::Order { number, order }, move |event| match event {
        NodeEvent::Ordered { number: of, outcome } if of == number => Some(outcome),
        _ => None,
    });
    outcome.await?.map_err(|refusal| Problem::field(field, refusal))
}

/// The bank's answer to a command.
async fn answer<T>(
    state: &ApiState,
    command: Command,
    of: impl Fn(NodeEvent) -> Option<T>,
) -> Result<T, Problem> {
    state.node.ask(command, PATIENCE, of).await.map_err(|e| match e {
        Unanswered::Late => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the bank does not answer; work goes on, and what was ordered is done when it is back",
        ),
        Unanswered::Stopped(stopped) => stopped.into(),
    })
}

fn no_bank() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "this gateway does not know its swarm's bank yet; the first node that it joins and that knows it tells",
    )
}

fn parse_node(field: &str, text: &str) -> Result<NodeId, Problem> {
    text.parse().map_err(|e| Problem::field(field, e))
}

fn parse_code(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut code = [0; 16];
    for (byte, at) in code.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(code)
}

impl Wallet {
    fn of(page: Page, bank: NodeId, pending: usize, sum: Option<i128>) -> Wallet {
        let Page { of: node, balance, held, first, all, lines } = page;
        let statement = lines.into_iter().map(StatementLine::of).collect();
        Wallet { node, bank, balance: balance.0, held: held.0, pending, first, all, statement, sum }
    }
}

impl StatementLine {
    fn of(line: Line) -> StatementLine {
        let Line { at_ms, amount, balance, why } = line;
        let (why, with, unit, kind) = match why {
            Why::Invite => ("invite", None, None, Kind::Cycles),
            Why::Minted => ("minted", None, None, Kind::Cycles),
            Why::To(node) => ("sent", Some(node), None, Kind::Cycles),
            Why::From(node) => ("received", Some(node), None, Kind::Cycles),
            Why::Held(unit) => ("held", None, Some(unit), Kind::Cycles),
            Why::Returned(unit) => ("returned", None, Some(unit), Kind::Cycles),
            Why::Earned(unit) => ("earned", None, Some(unit), Kind::Cycles),
            Why::Fee(unit) => ("fee", None, Some(unit), Kind::Cycles),
            Why::SpaceHeld(kind, unit) => ("space_held", None, Some(unit), kind),
            Why::SpaceReturned(kind, unit) => ("space_returned", None, Some(unit), kind),
            Why::Kept(kind, unit) => ("kept", None, Some(unit), kind),
        };
        let file = unit.filter(|_| kind == Kind::Files).map(|unit| unit.job.to_string());
        let unit = unit.filter(|_| file.is_none());
        StatementLine {
            at: rfc3339(at_ms),
            amount,
            balance: balance.0,
            why,
            with: with.map(|node| node.to_string()),
            job: unit.map(|UnitId { job, .. }| job.to_string()),
            unit: unit.map(|unit| unit.index),
            file,
        }
    }
}
