//! Decides whether the in-tree volumes of Windows workloads have the CSI drivers that take over.
//!
//! [`objects`] decodes cluster objects into the tables of [`index`], and [`assess`] judges those tables. Everything is
//! plain data and pure functions: this crate has no client, no clock and no async.

#[macro_use]
mod names;

pub mod api;
pub mod assess;
pub mod index;
pub mod objects;
pub mod visible;
