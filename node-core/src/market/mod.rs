//! Markets: what idle capacity costs (paper `market`, section IV). What is sold, and money, are
//! [`crate::goods`] and [`crate::money`].
//!
//! | part | what it knows |
//! |---|---|
//! | [`pricing`] | who sells at which price: reverse Vickrey, max-min payoff |
//! | [`listing`] | what a seller says and signs |
//! | [`seller`], [`buyer`], [`owner`] | three machines, of which pages have the first |

pub mod buyer;
mod config;
pub mod listing;
mod message;
pub mod owner;
pub mod pricing;
pub mod seller;

pub use config::MarketConfig;
pub use message::{
    Alive, Answer, COPY, Copy, Entrance, Entry, Message, Outcome, Prober, Purpose, Query, SHOWN, Sale, Stock,
    Summary, Take, ToBuyer, ToOwner, ToSeller, Unlisted,
};
