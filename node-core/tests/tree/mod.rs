//! The tree overlay as machines among themselves: whole networks of them, checked from outside.

mod failing;
mod growing;
mod leaving;
mod lying;
mod net;
