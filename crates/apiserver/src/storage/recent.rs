//! The parsed form of recently written objects. Objects are mostly written several times in a row, and parsing one costs as much as the
//! rest of a small write.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::Stored;

/// Trees kept. One takes about ten times the memory of the bytes it was written to.
const KEPT_MAX: usize = 256;

/// The objects whose trees are kept, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<Arc<Stored>>);

impl Recent {
    /// Keeps the tree of an object that was just written.
    pub(crate) fn keep(&mut self, object: &Arc<Stored>, tree: Value) {
        object.keep(Arc::new(tree));
        self.0.push_back(Arc::clone(object));
        if self.0.len() > KEPT_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::Change;

    #[test]
    fn only_the_last_trees_are_kept_and_all_objects_can_be_read() {
        let mut recent = Recent::default();
        let objects: Vec<Arc<Stored>> = (0..KEPT_MAX + 2)
            .map(|i| {
                let tree = json!({"metadata": {"name": i.to_string()}});
                let object = Arc::new(Stored::new(&i.to_string(), 1, Change::Added, &tree, &[]));
                recent.keep(&object, tree);
                object
            })
            .collect();
        let kept = objects.iter().filter(|o| Arc::ptr_eq(&o.value(), &o.value())).count();
        assert_eq!(kept, KEPT_MAX);
        for (i, object) in objects.iter().enumerate() {
            assert_eq!(*object.value(), json!({"metadata": {"name": i.to_string()}}));
        }
    }
}
