//! A map by node. Indices are dense and never given twice, so an entry is found without a search; one that is gone
//! leaves a null pointer.

use starfarm_protocol::ids::NodeId;

/// Values by node.
#[derive(Debug)]
pub(crate) struct ByNode<T> {
    all: Vec<Option<Box<T>>>,
    len: usize,
}

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        Self { all: Vec::new(), len: 0 }
    }
}

impl<T> ByNode<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&T> {
        self.all.get(id.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut T> {
        self.all.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn get_or_insert_with(&mut self, id: NodeId, new: impl FnOnce() -> T) -> &mut T {
        let at = id.0 as usize;
        if self.all.len() <= at {
            self.all.resize_with(at + 1, || None);
        }
        self.len += usize::from(self.all[at].is_none());
        self.all[at].get_or_insert_with(|| Box::new(new()))
    }

    pub(crate) fn remove(&mut self, id: NodeId) -> Option<Box<T>> {
        let value = self.all.get_mut(id.0 as usize)?.take()?;
        self.len = self.len.checked_sub(1).expect("it was counted when it came");
        Some(value)
    }

    /// All of them, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        (0..).map(NodeId).zip(&self.all).filter_map(|(id, value)| Some((id, value.as_deref()?)))
    }

    /// See [`ByNode::iter`].
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut T)> {
        (0..).map(NodeId).zip(&mut self.all).filter_map(|(id, value)| Some((id, value.as_deref_mut()?)))
    }
}
