//! `starfarm key`: who may come in.

use std::path::PathBuf;

use clap::Subcommand;
use starfarm_protocol::seal::Role;

use super::value::role;

#[derive(Subcommand, Debug)]
pub(crate) enum Key {
    /// List the keys
    List,
    /// Make a join key and print its join file, which is secret
    Add {
        /// What those who join with it may do
        #[arg(long, default_value = "worker", value_parser = role())]
        role: Role,
        /// Write the join file here, readable by you alone, instead of printing it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Do not welcome a key any more
    Revoke {
        /// A node's name, a public key, or a join key's id
        key: String,
    },
}
