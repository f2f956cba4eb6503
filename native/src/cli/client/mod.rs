//! The HTTP API from a command's side: blocking, typed, and patient with a gateway that restarts.

mod content;
mod events;
pub(crate) mod files;
pub(crate) mod types;

pub(crate) use content::{Content, of_swarm};

use super::failure::Failure;
use crate::policy::view::View;
use serde::de::DeserializeOwned;
use std::sync::RwLock;
use std::time::{Duration, Instant};
use types::{
    Invite, Job, Jobs, Market, Network, NewJob, Nodes, Partials, Problem, Results, Threads, Unit, Units,
    Wallet,
};
use ureq::http::{Response, StatusCode, Uri};
use ureq::{Agent, Body};

/// Our choice: a page of a thousand results with 4 KiB each fits, a runaway answer does not.
const MAX_JSON: u64 = 64 << 20;
/// How long a gateway may stay away while a job is waited for. Our choice: a reboot.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Where a gateway answers and what opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Without a slash at the end.
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

/// A conversation with one gateway.
pub(crate) struct Client {
    agent: Agent,
    endpoint: RwLock<Endpoint>,
    /// Looks the endpoint up again: a gateway that restarts may get another port.
    relocate: Option<Box<dyn Fn() -> Option<Endpoint> + Send + Sync>>,
    patience: Duration,
}

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("the gateway at {url} does not answer: {why}")]
    Unreachable { url: String, why: String },
    #[error("{message}")]
    Refused { status: u16, message: String },
    /// It answered with something that is not our API.
    #[error("{0}")]
    Strange(String),
    /// Something on this machine, such as a file that cannot be read.
    #[error("{0}")]
    Local(String),
}

impl ApiError {
    /// For a gateway on another machine that does not answer: a question that finds out why not.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            ApiError::Unreachable { why, .. } if why == UNKNOWN_HOST => {
                "is the host's name spelt as it should be?"
            }
            _ => "is it up, at that port, and was it started with --bind 0.0.0.0?",
        }
    }
}

/// The reason of [`ApiError::Unreachable`] if the name leads to no address.
const UNKNOWN_HOST: &str = "this machine finds no host of that name";

impl From<ApiError> for Failure {
    fn from(e: ApiError) -> Self {
        match &e {
            ApiError::Unreachable { url, .. } if !is_loopback(url) => {
                Failure::unreachable(format!("{e}; {} --gateway URL names another", e.advice()))
            }
            ApiError::Unreachable { .. } => Failure::unreachable(format!(
                "{e}; start one with `manyhands up --gateway`, or name another with --gateway URL"
            )),
            ApiError::Strange(_) => Failure::unreachable(e),
            ApiError::Refused { status: 400..=499, .. } => Failure::usage(e),
            ApiError::Refused { .. } | ApiError::Local(_) => Failure::failed(e),
        }
    }
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Client {
        Client::with_timeouts(endpoint, Duration::from_secs(5), Duration::from_secs(60))
    }

    /// A client that gives up soon: to see whether somebody is there at all.
    pub(crate) fn probe(endpoint: Endpoint) -> Client {
        Client::with_timeouts(endpoint, Duration::from_secs(1), Duration::from_secs(2))
    }

    fn with_timeouts(endpoint: Endpoint, connect: Duration, answer: Duration) -> Client {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // As many as uploads run at once.
            .max_idle_connections_per_host(8)
            .user_agent(concat!("manyhands/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(connect))
            .timeout_recv_response(Some(answer))
            .timeout_per_read(Some(answer))
            .timeout_per_write(Some(answer));
        if is_loopback(&endpoint.url) {
            // A proxy would look for the gateway on its own machine.
            config = config.proxy(None);
        }
        Client {
            agent: config.build().new_agent(),
            endpoint: RwLock::new(endpoint),
            relocate: None,
            patience: Duration::ZERO,
        }
    }

    /// Waits for a gateway that goes away, and looks for it again with `relocate`.
    pub(crate) fn patient(
        mut self,
        relocate: Option<Box<dyn Fn() -> Option<Endpoint> + Send + Sync>>,
    ) -> Client {
        self.patience = PATIENCE;
        self.relocate = relocate;
        self
    }

    pub(crate) fn url(&self) -> String {
        self.endpoint().url
    }

    fn endpoint(&self) -> Endpoint {
        self.endpoint.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn network(&self) -> Result<Network, ApiError> {
        self.get("/api/v1/network")
    }

    pub(crate) fn nodes_text(&self) -> Result<String, ApiError> {
        self.text("/api/v1/nodes")
    }

    pub(crate) fn nodes(&self) -> Result<Nodes, ApiError> {
        self.get("/api/v1/nodes")
    }

    /// The gateway's figures in the OpenMetrics text format.
    pub(crate) fn metrics_text(&self) -> Result<String, ApiError> {
        self.text("/metrics")
    }

    /// One page of jobs, as the API wrote it and as we understand it.
    pub(crate) fn jobs(&self, limit: u32, cursor: Option<&str>) -> Result<(Jobs, String), ApiError> {
        let cursor = cursor.map(|c| format!("&cursor={}", escape(c))).unwrap_or_default();
        self.both(&format!("/api/v1/jobs?limit={limit}{cursor}"))
    }

    pub(crate) fn job(&self, id: &str) -> Result<Job, ApiError> {
        self.job_and_text(id).map(|(job, _)| job)
    }

    pub(crate) fn job_and_text(&self, id: &str) -> Result<(Job, String), ApiError> {
        self.both(&format!("/api/v1/jobs/{}", escape(id)))
    }

    /// Submits once, however often it has to be sent: the key makes repetitions harmless.
    pub(crate) fn submit(&self, job: &NewJob) -> Result<(Job, String), ApiError> {
        let key = random_hex::<16>()?;
        let body =
            serde_json::to_vec(job).map_err(|e| ApiError::Local(format!("cannot write the job: {e}")))?;
        let text = self.patiently(|at| {
            let request = self.agent.post(format!("{}/api/v1/jobs", at.url));
            let request = request.header("content-type", "application/json").header("idempotency-key", &key);
            self.read_text(at, authorized(request, at).send(&body[..]))
        })?;
        Ok((self.parse(&text)?, text))
    }

    pub(crate) fn cancel(&self, id: &str) -> Result<(Job, String), ApiError> {
        let path = format!("/api/v1/jobs/{}", escape(id));
        let text = self.patiently(|at| {
            self.read_text(at, authorized(self.agent.delete(format!("{}{path}", at.url)), at).call())
        })?;
        Ok((self.parse(&text)?, text))
    }

    pub(crate) fn units(&self, id: &str, from: u32, limit: u32) -> Result<Units, ApiError> {
        self.get(&format!("/api/v1/jobs/{}/units?from={from}&limit={limit}", escape(id)))
    }

    pub(crate) fn results(&self, id: &str, from: u32, limit: u32) -> Result<(Results, String), ApiError> {
        // Small outputs come along: one request for each of them would take a round trip each.
        let inline = node_core::content::Data::INLINE_MAX;
        let range = format!("from={from}&limit={limit}&inline={inline}");
        self.both(&format!("/api/v1/jobs/{}/results?{range}", escape(id)))
    }

    pub(crate) fn threads(&self, id: &str, from: u32, limit: u32) -> Result<(Threads, String), ApiError> {
        self.both(&format!("/api/v1/jobs/{}/threads?from={from}&limit={limit}", escape(id)))
    }

    pub(crate) fn partials(&self, id: &str, from: u64) -> Result<Partials, ApiError> {
        self.get(&format!("/api/v1/jobs/{}/partials?from={from}", escape(id)))
    }

    pub(crate) fn migrate(&self, id: &str, index: u32, to: Option<&str>) -> Result<(Unit, String), ApiError> {
        let path = format!("/api/v1/jobs/{}/units/{index}/migrate", escape(id));
        self.post(&path, &serde_json::json!({ "to": to }))
    }

    pub(crate) fn pause(&self, id: &str, index: u32, paused: bool) -> Result<(Unit, String), ApiError> {
        let path = format!("/api/v1/jobs/{}/units/{index}/pause", escape(id));
        self.post(&path, &serde_json::json!({ "paused": paused }))
    }

    pub(crate) fn unit(&self, id: &str, index: u32) -> Result<Unit, ApiError> {
        self.unit_and_text(id, index).map(|(unit, _)| unit)
    }

    pub(crate) fn unit_and_text(&self, id: &str, index: u32) -> Result<(Unit, String), ApiError> {
        self.both(&format!("/api/v1/jobs/{}/units/{index}", escape(id)))
    }

    /// Sends something that may be sent again.
    fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<(T, String), ApiError> {
        let body = body.to_string();
        let text = self.patiently(|at| {
            let request =
                self.agent.post(format!("{}{path}", at.url)).header("content-type", "application/json");
            self.read_text(at, authorized(request, at).send(body.as_bytes()))
        })?;
        Ok((self.parse(&text)?, text))
    }

    /// Sends something that would count twice.
    fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<(T, String), ApiError> {
        let (at, body) = (self.endpoint(), body.to_string());
        let request = self.agent.post(format!("{}{path}", at.url)).header("content-type", "application/json");
        let text = self.read_text(&at, authorized(request, &at).send(body.as_bytes()))?;
        Ok((self.parse(&text)?, text))
    }

    pub(crate) fn market(&self) -> Result<(Market, String), ApiError> {
        self.both("/api/v1/market")
    }

    /// This gateway's account, or a node's if it is the bank.
    pub(crate) fn wallet(&self, node: Option<&str>, lines: u32) -> Result<(Wallet, String), ApiError> {
        let node = node.map(|node| format!("&node={}", escape(node))).unwrap_or_default();
        self.both(&format!("/api/v1/wallet?limit={lines}{node}"))
    }

    pub(crate) fn invite(&self, amount: u64) -> Result<(Invite, String), ApiError> {
        self.post_once("/api/v1/wallet/invites", &serde_json::json!({ "amount": amount }))
    }

    pub(crate) fn redeem(&self, code: &str) -> Result<(Wallet, String), ApiError> {
        self.post_once("/api/v1/wallet/redeem", &serde_json::json!({ "code": code }))
    }

    pub(crate) fn send_credit(&self, to: &str, amount: u64) -> Result<(Wallet, String), ApiError> {
        self.post_once("/api/v1/wallet/transfers", &serde_json::json!({ "to": to, "amount": amount }))
    }

    pub(crate) fn policy(&self) -> Result<View, ApiError> {
        self.get("/api/v1/policy")
    }

    /// The policy from now on; what `set` leaves out has its default.
    pub(crate) fn set_policy(&self, set: &toml::Table) -> Result<View, ApiError> {
        let body = serde_json::to_string(set).unwrap_or_default();
        let text = self.patiently(|at| {
            let request = self.agent.put(format!("{}/api/v1/policy", at.url));
            let request = request.header("content-type", "application/json");
            self.read_text(at, authorized(request, at).send(body.as_bytes()))
        })?;
        self.parse(&text)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.both(path).map(|(value, _)| value)
    }

    fn both<T: DeserializeOwned>(&self, path: &str) -> Result<(T, String), ApiError> {
        let text = self.text(path)?;
        Ok((self.parse(&text)?, text))
    }

    fn text(&self, path: &str) -> Result<String, ApiError> {
        self.patiently(|at| {
            self.read_text(at, authorized(self.agent.get(format!("{}{path}", at.url)), at).call())
        })
    }

    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, ApiError> {
        serde_json::from_str(text).map_err(|e| {
            ApiError::Strange(format!(
                "{} does not answer as a Manyhands gateway does ({e}); is it another program, or another version?",
                self.url()
            ))
        })
    }

    /// Repeats a request while nobody answers, as long as patience lasts.
    fn patiently<T>(&self, request: impl Fn(&Endpoint) -> Result<T, ApiError>) -> Result<T, ApiError> {
        let mut waiting = None;
        loop {
            let at = self.endpoint();
            match request(&at) {
                // It may have been replaced meanwhile (`token rotate`).
                Err(ApiError::Refused { status: 401, .. }) if self.has_another_token(&at) => {}
                Err(e @ ApiError::Unreachable { .. }) if !self.patience.is_zero() => {
                    waiting.get_or_insert_with(|| Absence::new(self.patience)).pause(&e)?;
                    self.look_again();
                }
                answer => {
                    if let (Ok(_), Some(_)) = (&answer, waiting) {
                        super::progress::say(&format!("The gateway at {} is back.", at.url));
                    }
                    return answer;
                }
            }
        }
    }

    /// Whether the gateway's token is another by now than the one that was refused.
    fn has_another_token(&self, refused: &Endpoint) -> bool {
        self.look_again();
        self.endpoint().token != refused.token
    }

    fn look_again(&self) {
        if let Some(found) = self.relocate.as_ref().and_then(|look| look()) {
            *self.endpoint.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = found;
        }
    }

    fn read_text(
        &self,
        at: &Endpoint,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<String, ApiError> {
        let mut answer = self.accepted(at, answer)?;
        answer.body_mut().with_config().limit(MAX_JSON).read_to_string().map_err(|e| transport(at, &e))
    }

    /// Sorts out what is not a success, in words.
    fn accepted(
        &self,
        at: &Endpoint,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, ApiError> {
        let mut answer = answer.map_err(|e| transport(at, &e))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.body_mut().with_config().limit(MAX_JSON).read_to_string().unwrap_or_default();
        let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
        let said = if problem.detail.is_empty() { problem.title } else { problem.detail };
        let message = match status {
            StatusCode::UNAUTHORIZED if at.token.is_none() => format!(
                "the gateway at {} wants its token: give --token or MANYHANDS_TOKEN (`manyhands token` shows it on the gateway's machine)",
                at.url
            ),
            StatusCode::UNAUTHORIZED => format!(
                "the gateway at {} does not accept this token: take the one that `manyhands token` shows on the gateway's machine",
                at.url
            ),
            _ if !said.is_empty() => said,
            s if s.is_redirection() || text.trim_start().starts_with('<') => {
                return Err(ApiError::Strange(format!(
                    "{} answers {s}, not as a Manyhands gateway does; is the address right?",
                    at.url
                )));
            }
            s => format!("the gateway at {} answers {s}", at.url),
        };
        Err(ApiError::Refused { status: status.as_u16(), message })
    }
}

/// How long the gateway has been away, and when to try again.
struct Absence {
    since: Instant,
    patience: Duration,
    pause: Duration,
}

impl Absence {
    fn new(patience: Duration) -> Self {
        Absence { since: Instant::now(), patience, pause: Duration::from_millis(50) }
    }

    /// Waits before the next attempt, or gives up with `why`.
    fn pause(&mut self, why: &ApiError) -> Result<(), ApiError> {
        if self.since.elapsed() > self.patience {
            let ApiError::Unreachable { url, why } = why else { return Ok(()) };
            let minutes = self.patience.as_secs() / 60;
            let why = format!("{why}; gave up after {minutes} minutes");
            return Err(ApiError::Unreachable { url: url.clone(), why });
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_secs(2));
        // A hiccup is not worth a word.
        if self.pause == Duration::from_millis(800) {
            super::progress::say(&format!("{why}; trying again (jobs it accepted are not lost)"));
        }
        Ok(())
    }
}

fn authorized<B>(request: ureq::RequestBuilder<B>, at: &Endpoint) -> ureq::RequestBuilder<B> {
    match &at.token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    }
}

fn transport(at: &Endpoint, e: &ureq::Error) -> ApiError {
    use std::io::ErrorKind;
    let url = at.url.clone();
    let why = match e {
        ureq::Error::Io(io) => match io.kind() {
            ErrorKind::ConnectionRefused => "nothing listens there".into(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                "it closed the connection".into()
            }
            // The standard library has no kind for it.
            _ if io.to_string().contains("failed to lookup address") => UNKNOWN_HOST.into(),
            _ => io.to_string(),
        },
        ureq::Error::Timeout(_) => "it took too long".into(),
        ureq::Error::HostNotFound => UNKNOWN_HOST.into(),
        ureq::Error::BodyExceedsLimit(n) => {
            return ApiError::Strange(format!("{url} answered with more than {n} bytes"));
        }
        ureq::Error::Protocol(e) => {
            return ApiError::Strange(format!("{url} does not speak HTTP as a gateway does: {e}"));
        }
        other => other.to_string(),
    };
    ApiError::Unreachable { url, why }
}

/// Checks a gateway's address as a person gives it, and brings it into its normal form.
pub(crate) fn gateway_url(text: &str) -> Result<String, String> {
    let trimmed = text.trim();
    let full = if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
    let bad = |why: &str| format!("{text:?} is no gateway's address: {why}; write it as http://host:port");
    let uri: Uri = full.parse().map_err(|e| bad(&format!("{e}")))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(bad(
                "this build speaks plain HTTP only; tunnel it (ssh -L) or use http on a trusted network",
            ));
        }
        Some(other) => return Err(bad(&format!("{other} is not http"))),
        None => return Err(bad("it has no scheme")),
    }
    let authority =
        uri.authority().filter(|a| !a.host().is_empty()).ok_or_else(|| bad("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(bad("credentials do not belong in it; give --token"));
    }
    // The dashboard's address is as good: people copy what the browser shows.
    Ok(format!("http://{authority}"))
}

fn is_loopback(url: &str) -> bool {
    let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// One part of a path or query.
fn escape(part: &str) -> String {
    percent_encoding::utf8_percent_encode(part, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// `N` random bytes, as text.
pub(crate) fn random_hex<const N: usize>() -> Result<String, ApiError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| ApiError::Local(format!("this system gives no random bytes: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
