//! Markets: what idle capacity costs (paper 002, section IV).
//!
//! | part | what it knows |
//! |---|---|
//! | [`money`] | micro-credits, prices, and the one rounding |
//! | [`budget`] | what a job may cost, and what of it is bound |
//! | [`pricing`] | who sells at which price: reverse Vickrey, max-min payoff |
//! | [`commodity`] | ranges of capacity, and where their markets are |
//! | [`listing`] | what a seller says and signs |
//! | [`seller`], [`buyer`], [`owner`] | three machines, of which pages have the first |
//! | [`guest`], [`host`] | selling by way of a gateway, for who cannot be dialled |

pub mod budget;
pub mod buyer;
pub mod commodity;
mod config;
pub mod guest;
#[cfg(feature = "roles")]
pub mod host;
pub mod listing;
mod message;
pub mod money;
#[cfg(feature = "roles")]
pub mod owner;
pub mod pricing;
pub mod seller;

pub use config::MarketConfig;
pub use message::{
    Alive, Answer, COPY, Copy, Entrance, Entry, Message, Outcome, Prober, Purpose, Query, SHOWN, Sale, Stock,
    Summary, Take, ToBuyer, ToOwner, ToSeller, UNITS, Unlisted, Wanted,
};
pub use pricing::Rule;
