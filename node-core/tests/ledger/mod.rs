//! Stories of the bank: who is paid, who is not, and that the sum stays zero.

mod chaos;
mod clients;
mod disk;
mod stories;
mod support;
