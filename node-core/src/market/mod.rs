//! Markets: what idle capacity costs (paper 002, section IV).
//!
//! | part | what it knows |
//! |---|---|
//! | [`money`] | micro-credits, prices, and the one rounding |
//! | [`budget`] | what a job may cost, and what of it is bound |
//! | [`pricing`] | who sells at which price: reverse Vickrey, max-min payoff |
//! | [`commodity`] | ranges of capacity, and where their markets are |
//! | [`listing`] | what a seller says and signs |

pub mod budget;
pub mod commodity;
pub mod listing;
pub mod money;
pub mod pricing;
