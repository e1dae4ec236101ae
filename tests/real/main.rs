//! Everything that runs on real parts, in one program: its tests share API servers and hosts, and fill each other's pauses.

mod before;
mod browser;
mod chart;
mod cluster;
mod crds;
mod docs;
mod dumps;
mod manifests;
mod monitoring;
mod olm;
mod plugin;
mod samples;
mod supply_chain;
