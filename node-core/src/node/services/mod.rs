//! The services of a node, one file each: what its events become, and which notes, replies and commands
//! concern it (`space` is a part of `files`). The two lists below say which services a node can have, beside
//! its neighbours; its configuration says which of them it has.

mod bank;
mod buyer;
mod can;
mod cheapest;
mod circuit_relay;
mod circuits;
mod client;
mod connected;
mod dialback;
mod files;
mod fitting;
mod guest;
mod keeper;
mod kept_files;
mod market_owner;
mod nearest;
mod neighbours;
mod owner;
mod purse;
mod random;
mod records;
mod relay;
mod ring;
mod rn_tree;
mod runner;
mod seller;
mod signalling;
mod space;
mod store;
pub(super) mod tree;

use super::table::{Entry, entry, shown};
use crate::discovery::{
    cheapest::Cheapest, connected::Connected, fitting::Fitting, nearest::Nearest, random::Random,
};
use crate::files::{keeper::Keeper as KeptFiles, owner::Owner as Files};
use crate::ledger::{bank::Bank, client::Client as Purse};
use crate::market::{buyer::Buyer, owner::Owner as MarketOwner, seller::Seller};
use crate::overlay::can::Can;
use crate::overlay::circuits::{ends::Circuits, relay::CircuitRelay};
use crate::overlay::guests::{guest::Guest, relay::Relay};
use crate::overlay::{dialback::DialBack, ring::Ring, rn_tree::RnTree, signalling::Signalling, tree::Tree};
use crate::records::Records;
use crate::store::Store;
use crate::work::{client::Client, keeper::Keeper, owner::Owner, runner::Runner};

/// Services of a page that lends, in the order in which they hear notes. What is not named here is not linked into it.
pub(super) const GUEST: &[Entry] = &[
    entry::<Connected>,
    entry::<Keeper>,
    entry::<Runner>,
    entry::<Seller>,
    entry::<Guest>,
    entry::<Store>,
    entry::<Signalling>,
    entry::<Circuits>,
];

/// All services. Dial-back is the last to hear: by then the others know what the node's place follows from.
pub(super) const FULL: &[Entry] = &[
    shown::<Connected>,
    shown::<Owner>,
    shown::<Keeper>,
    shown::<Runner>,
    shown::<Client>,
    shown::<Tree>,
    shown::<Nearest>,
    shown::<Random>,
    shown::<Ring>,
    shown::<RnTree>,
    shown::<Can>,
    shown::<Fitting>,
    shown::<Purse>,
    shown::<Bank>,
    shown::<MarketOwner>,
    shown::<Seller>,
    shown::<Buyer>,
    shown::<Cheapest>,
    shown::<Guest>,
    shown::<Relay>,
    shown::<Records>,
    shown::<Files>,
    shown::<KeptFiles>,
    shown::<Store>,
    shown::<Signalling>,
    shown::<Circuits>,
    shown::<CircuitRelay>,
    shown::<DialBack>,
];
