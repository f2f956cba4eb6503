//! Markets: what idle capacity costs (paper 002, section IV).
//!
//! | part | what it knows |
//! |---|---|
//! | [`money`] | micro-credits, prices, and the one rounding |
//! | [`budget`] | what a job may cost, and what of it is bound |
//! | [`pricing`] | who sells at which price: reverse Vickrey, max-min payoff |

pub mod budget;
pub mod money;
#[cfg(feature = "roles")]
pub mod pricing;
