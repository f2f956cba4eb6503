//! The markets, as far as this gateway knows them: those that it owns or keeps a copy of.

use super::ApiState;
use super::model::{Names, text};
use super::problem::Problem;
use axum::Json;
use axum::extract::State;
use node_core::market::commodity::{Kind, Market, Scheme};
use node_core::market::pricing::Rule;
use node_core::{Node, NodeId, Platform, Time};
use serde::Serialize;
use utoipa::ToSchema;

/// Offers of one market that are listed, the cheapest. Our choice: what a person looks through.
const OFFERS: usize = 50;

/// What is traded in this swarm, as far as this gateway knows.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MarketState {
    /// How markets are found: `processor` or `single`; null in a swarm without markets.
    scheme: Option<&'static str>,
    /// Who sells, and at which price: `reverse_vickrey` or `max_min`.
    rule: Option<&'static str>,
    /// The bank of the swarm, as far as it is known.
    #[serde(serialize_with = "super::model::text_or_null")]
    #[schema(value_type = Option<String>)]
    bank: Option<NodeId>,
    commodities: Vec<Commodity>,
    /// What this gateway itself sells now.
    selling: Vec<Offer>,
}

/// A range of capacities, and who sells there.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Commodity {
    /// `cycles`, `checkpoints` or `files`.
    kind: &'static str,
    /// The least and the most capacity: fuel a second, or bytes.
    least: u64,
    most: u64,
    /// This gateway owns the market; else it keeps a copy of it.
    mine: bool,
    sellers: usize,
    /// The lowest cost that is listed, micro-credits for 10^9 of fuel or byte-seconds.
    cheapest: Option<u64>,
    /// The cheapest, at most 50.
    offers: Vec<Offer>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Offer {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    seller: NodeId,
    /// Empty if this gateway never met it.
    name: String,
    /// `cycles`, `checkpoints` or `files`.
    kind: &'static str,
    /// Of each unit: fuel a second, or bytes.
    capacity: u64,
    units: u16,
    /// For how long, minutes.
    minutes: u16,
    /// Micro-credits for 10^9 of fuel or byte-seconds.
    cost: u64,
    /// `native` or `browser`.
    engine: &'static str,
    memory_mib: u32,
}

/// Look at the markets.
///
/// Those that this gateway owns or keeps a copy of; open to anybody, as every node may ask them.
#[utoipa::path(
    get, operation_id = "getMarket", path = "/api/v1/market", tag = "swarm",
    responses(
        (status = 200, body = MarketState),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn market(State(state): State<ApiState>) -> Result<Json<MarketState>, Problem> {
    Ok(Json(state.node.read(MarketState::of).await?))
}

impl MarketState {
    fn of(node: &Node, _: Time) -> MarketState {
        let names = Names::of(node);
        let config = node.market_config();
        let books = node.markets().into_iter().flat_map(|markets| markets.books().collect::<Vec<_>>());
        let mut commodities: Vec<Commodity> = books
            .filter(|book| !book.sellers.is_empty())
            .map(|book| {
                let mut entries: Vec<_> = book.sellers.iter().collect();
                entries.sort_by_key(|entry| (entry.cost, entry.seller.id));
                let offer = |entry: &&node_core::market::Entry| Offer {
                    seller: entry.seller.id,
                    name: names.get(entry.seller.id),
                    ..Offer::new(&entry.goods(book.market.kind))
                };
                Commodity {
                    kind: kind(book.market.kind),
                    least: book.market.least(),
                    most: book.market.next().map_or(Market::MOST, |next| next.least() - 1),
                    mine: book.mine,
                    sellers: entries.len(),
                    cheapest: entries.first().map(|entry| entry.cost.0),
                    offers: entries.iter().take(OFFERS).map(offer).collect(),
                }
            })
            .collect();
        commodities.sort_by_key(|commodity| (commodity.kind, commodity.least));
        let me = node.id();
        let mine = |goods| Offer { seller: me, name: names.get(me), ..Offer::new(&goods) };
        MarketState {
            scheme: config.map(|config| match config.scheme {
                Scheme::Single => "single",
                Scheme::Processor => "processor",
            }),
            rule: config.map(|config| match config.rule {
                Rule::ReverseVickrey => "reverse_vickrey",
                Rule::MaxMin => "max_min",
            }),
            bank: node.bank(),
            commodities,
            selling: node.selling().map(mine).collect(),
        }
    }
}

impl Offer {
    fn new(goods: &node_core::market::listing::Goods) -> Offer {
        Offer {
            seller: NodeId([0; 32]),
            name: String::new(),
            kind: kind(goods.kind),
            capacity: goods.capacity,
            units: goods.units,
            minutes: goods.minutes,
            cost: goods.cost.0,
            engine: match goods.engine {
                Platform::Native => "native",
                Platform::Browser => "browser",
            },
            memory_mib: goods.memory_mib,
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Cycles => "cycles",
        Kind::Checkpoints => "checkpoints",
        Kind::Files => "files",
    }
}
