//! The finalizers of a custom resource. Its author may list any number of them, so only ours and the first of the others
//! are kept; the rest are counted while they are parsed.

use std::fmt;
use std::sync::Arc;

use helm_release::kube::intern;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

/// Our finalizer, which helm-operator-plugins and old versions of operator-sdk also use. Both upstreams remove it, so a
/// resource created here can be moved back to either.
pub(crate) const FINALIZER: &str = "uninstall-helm-release";
/// operator-sdk's finalizer, which we recognise and remove. helm-operator-plugins would never remove it.
pub(crate) const SDK_FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";

/// The maximum number of others' finalizers that are kept.
const MAX_OTHERS: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finalizers {
    kept: Box<[Arc<str>]>,
    /// The number of others' finalizers that are not kept.
    pub(crate) more: usize,
}

/// Returns whether a finalizer is ours or an upstream's.
pub(crate) fn is_ours(finalizer: &str) -> bool {
    finalizer == FINALIZER || finalizer == SDK_FINALIZER
}

impl Finalizers {
    /// Returns the kept ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.kept.iter()
    }

    /// Returns all finalizers; `None` if some are not kept.
    pub(crate) fn all(&self) -> Option<&[Arc<str>]> {
        (self.more == 0).then_some(&*self.kept)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

impl<'de> Deserialize<'de> for Finalizers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Finalizers, D::Error> {
        deserializer.deserialize_seq(List)
    }
}

/// Reads a list of finalizers, one at a time.
struct List;

impl<'de> Visitor<'de> for List {
    type Value = Finalizers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of finalizers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Finalizers, A::Error> {
        let (mut kept, mut others, mut more): (Vec<Arc<str>>, usize, usize) = (Vec::new(), 0, 0);
        while let Some(finalizer) = list.next_element::<String>()? {
            let is_own = is_ours(&finalizer);
            if is_own && kept.iter().any(|known| **known == *finalizer) {
                continue;
            }
            if !is_own && others == MAX_OTHERS {
                more += 1;
                continue;
            }
            others += usize::from(!is_own);
            kept.push(intern(&finalizer));
        }
        Ok(Finalizers { kept: kept.into(), more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[String]) -> Finalizers {
        serde_json::from_value(serde_json::to_value(names).unwrap()).unwrap()
    }

    #[test]
    fn so_many_finalizers_of_others_are_kept_and_always_ours() {
        let mut names: Vec<String> = (0..50_000).map(|n| format!("their.org/{n}")).collect();
        let few = read(&names[..MAX_OTHERS]);
        assert_eq!((few.all().map(<[_]>::len), few.more), (Some(MAX_OTHERS), 0));
        names.extend(std::iter::repeat_n(FINALIZER.to_owned(), 1000));
        let many = read(&names);
        assert_eq!((many.all(), many.more, many.iter().count()), (None, 50_000 - MAX_OTHERS, MAX_OTHERS + 1));
        assert!(many.iter().any(|finalizer| is_ours(finalizer)));
        assert_ne!(many, read(&names[1..]), "one went");
        assert!(read(&[]).is_empty());
    }
}
