//! Finding the swarm that a command talks to: the gateway that was named, else the one on this
//! machine, else (for commands that wait for their job) one inside this process.

use super::args::SwarmArgs;
use super::beacon::{Beacon, Pid};
use super::client::{Client, Endpoint, gateway_url};
use super::embedded::Embedded;
use super::failure::Failure;
use crate::paths::DataFolder;
use std::sync::Arc;

/// A swarm that answers.
pub(crate) struct Swarm {
    pub(crate) client: Arc<Client>,
    /// Lives as long as the command.
    pub(crate) embedded: Option<Embedded>,
}

/// Gateway that a command may talk to: named by an option, found on this machine, or none.
enum Found {
    Named(Endpoint),
    Here(Endpoint),
    Nobody,
}

/// A gateway that runs without us.
pub(crate) fn find(args: &SwarmArgs, folder: &DataFolder) -> Result<Client, Failure> {
    match look(args, folder)? {
        Found::Named(endpoint) => named(endpoint),
        Found::Here(endpoint) => Ok(Client::new(endpoint)),
        Found::Nobody => Err(Failure::unreachable(nobody(folder))),
    }
}

/// Why no gateway was found on this machine, and what to do.
fn nobody(folder: &DataFolder) -> String {
    let dir = folder.dir().display();
    let start = "start one with `manyhands up --gateway`, or name another with --gateway URL";
    match Beacon::see(folder) {
        Some(beacon) => {
            format!(
                "no node runs on this machine (the one at {} does not answer any more); start it again, or name a \
                 gateway with --gateway URL",
                beacon.url
            )
        }
        None if Pid::see(folder).is_some() => format!(
            "the node that runs on this machine (data folder {dir}) does not answer yet; try again, or name a gateway \
             with --gateway URL"
        ),
        None => format!("no gateway runs on this machine (none on the data folder {dir}); {start}"),
    }
}

/// [`find`], but `None` if no gateway is named or runs here.
pub(crate) fn find_if_any(args: &SwarmArgs, folder: &DataFolder) -> Result<Option<Client>, Failure> {
    Ok(match look(args, folder)? {
        Found::Named(endpoint) => Some(named(endpoint)?),
        Found::Here(endpoint) => Some(Client::new(endpoint)),
        Found::Nobody => None,
    })
}

/// [`find`], for what is sent once and not lost: the client waits for a gateway that goes away.
pub(crate) fn find_patiently(args: &SwarmArgs, folder: &DataFolder) -> Result<Swarm, Failure> {
    let found = look(args, folder)?;
    let client = patient(found, folder)?.ok_or_else(|| Failure::unreachable(nobody(folder)))?;
    Ok(Swarm { client: Arc::new(client), embedded: None })
}

/// [`find_patiently`], else a swarm of our own.
pub(crate) fn find_or_embed(args: &SwarmArgs, folder: &DataFolder) -> Result<Swarm, Failure> {
    let found = look(args, folder)?;
    let (client, embedded) = match patient(found, folder)? {
        Some(client) => (client, None),
        None => {
            let (embedded, endpoint) = Embedded::start(folder)?;
            (Client::new(endpoint), Some(embedded))
        }
    };
    Ok(Swarm { client: Arc::new(client), embedded })
}

fn patient(found: Found, folder: &DataFolder) -> Result<Option<Client>, Failure> {
    Ok(match found {
        Found::Named(endpoint) => Some(named(endpoint)?.patient(None)),
        Found::Here(endpoint) => {
            let folder = folder.clone();
            Some(Client::new(endpoint).patient(Some(Box::new(move || local(&folder)))))
        }
        Found::Nobody => None,
    })
}

/// Makes sure that somebody is there before files are read and sent.
fn named(endpoint: Endpoint) -> Result<Client, Failure> {
    let client = Client::new(endpoint);
    client.network()?;
    Ok(client)
}

fn look(args: &SwarmArgs, folder: &DataFolder) -> Result<Found, Failure> {
    let given = args.gateway.as_deref().filter(|text| !text.trim().is_empty());
    let token = args.token.clone().filter(|text| !text.is_empty());
    if token.as_ref().is_some_and(|text| !text.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(Failure::usage(
            "what --token or MANYHANDS_TOKEN gives is no token: it has other characters than a token's; take \
             what `manyhands token` shows on the gateway's machine",
        ));
    }
    if let Some(text) = given {
        let url = gateway_url(text).map_err(Failure::usage)?;
        // Our own gateway's token need not be typed; nobody else is sent it.
        let token = token.or_else(|| {
            let here = Beacon::see(folder).is_some_and(|beacon| beacon.url == url);
            if here { stored_token(folder) } else { None }
        });
        return Ok(Found::Named(Endpoint { url, token }));
    }
    let found = local(folder).map(|found| Endpoint { token: token.or(found.token), ..found });
    Ok(found.map_or(Found::Nobody, Found::Here))
}

/// The gateway on this data folder, if it answers.
fn local(folder: &DataFolder) -> Option<Endpoint> {
    let beacon = Beacon::see(folder)?;
    let endpoint = Endpoint { url: beacon.url, token: stored_token(folder) };
    let network = Client::probe(Endpoint { token: None, ..endpoint.clone() }).network().ok()?;
    (beacon.node.is_empty() || network.node == beacon.node).then_some(endpoint)
}

fn stored_token(folder: &DataFolder) -> Option<String> {
    let text = std::fs::read_to_string(folder.token()).ok()?;
    Some(text.trim().to_owned()).filter(|token| !token.is_empty())
}
