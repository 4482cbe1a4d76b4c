//! Nodes that are forgotten, as far as their next incarnations must be told from others: one that comes back has its number
//! again, after a restart too. So what it computed before is known as its own, and so is what it may still report.

use std::collections::BTreeMap;

use starfarm_events::Name;
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::reason::Distrust;

use crate::health::{Health, Standing};
use crate::limits::NODES_FORGOTTEN_MAX;

/// The nodes that were forgotten last.
#[derive(Debug, Default)]
pub(crate) struct Forgotten(BTreeMap<NodeId, (Name, Health)>);

impl Forgotten {
    /// All of them, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Name, &Health)> {
        self.0.iter().map(|(id, (name, health))| (*id, name, health))
    }

    pub(crate) fn name(&self, id: NodeId) -> Option<&Name> {
        self.0.get(&id).map(|(name, _)| name)
    }

    /// A node that had this health is forgotten. Where there are too many, the one of the lowest number goes; what is not
    /// trusted stays as long as others can go.
    pub(crate) fn add(&mut self, id: NodeId, name: Name, health: Health) {
        self.0.insert(id, (name, health));
        if self.0.len() > NODES_FORGOTTEN_MAX {
            let first = self.0.iter().min_by_key(|(id, (_, health))| (health.is_distrusted(), **id));
            let first = *first.expect("there are too many").0;
            self.0.remove(&first);
        }
    }

    /// It is a node again.
    pub(crate) fn remove(&mut self, id: NodeId) {
        self.0.remove(&id);
    }

    /// What is held against it when it comes back. Whoever has the name of a key that was revoked is another machine, or one
    /// that was made anew.
    pub(crate) fn standing(&self, id: NodeId) -> Standing {
        let Some((_, health)) = self.0.get(&id) else { return Standing::Good };
        match health.standing {
            Standing::Distrusted(why) if !health.is_revoked() => Standing::Distrusted(why),
            _ => Standing::Good,
        }
    }

    /// What it reported is found to be untrue.
    pub(crate) fn distrust(&mut self, id: NodeId, why: Distrust) {
        if let Some((_, health)) = self.0.get_mut(&id) {
            health.standing = Standing::Distrusted(why);
        }
    }

    /// Its key is revoked, or a person trusts it before it says hello.
    pub(crate) fn takes(&mut self, id: NodeId, mark: NodeMark) {
        if let (Some((_, health)), NodeMark::Revoked | NodeMark::Resumed) = (self.0.get_mut(&id), mark) {
            health.takes(mark);
        }
    }
}
