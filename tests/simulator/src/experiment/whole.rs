//! Nodes with all services of the product, to be weighed.

use node_core::Config;
use node_core::files::FilesConfig;
use node_core::keys::Secret;
use node_core::ledger::books::Rules;
use node_core::market::MarketConfig;
use node_core::node::config::{BankPart, MarketPart, RecordsPart};
use node_core::overlay::ring::RingConfig;
use node_core::records::RecordsConfig;
use std::sync::Arc;

/// Units of other gateways' jobs that a node owns at most: what the native node takes.
const DELEGATED: usize = 10_000;

/// Settings that all nodes share.
#[derive(Default)]
pub(super) struct Shared {
    ring: Arc<RingConfig>,
    market: Arc<MarketConfig>,
    records: Arc<RecordsConfig>,
    files: Arc<FilesConfig>,
    /// Nodes open data channels, and those that can be dialled relay circuits.
    connects: bool,
}

/// Bytes a second that a node relays: what the native node does.
const RELAY_RATE: u64 = 10_000_000;

impl Shared {
    pub(super) fn new(connects: bool) -> Shared {
        Shared { connects, ..Shared::default() }
    }

    /// Bounds that all nodes share.
    pub(super) fn bound(config: &mut Config) {
        config.limits_mut().delegated_units = DELEGATED;
    }

    /// The node at this index with all services, and its key.
    pub(super) fn whole(&self, at: usize, config: &Config) -> (Config, Secret) {
        let secret = secret(at);
        let config = Config {
            ring: Some(self.ring.clone()),
            market: Some(MarketPart { config: self.market.clone(), secret: secret.clone() }),
            bank: Some(BankPart {
                secret: secret.clone(),
                bank: Some(self::secret(0).node()),
                rules: (at == 0).then(Rules::default),
            }),
            records: Some(RecordsPart { config: self.records.clone(), secret: secret.clone() }),
            files: Some(self.files.clone()),
            signalling: self.connects.then(|| secret.clone()),
            circuits: self.connects,
            relay_rate: config.port.filter(|_| self.connects).map(|_| RELAY_RATE),
            ..config.clone()
        };
        (config, secret)
    }
}

fn secret(at: usize) -> Secret {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&(at as u64).to_be_bytes());
    Secret::from_bytes(&bytes)
}
