//! `merge` and `mergeOverwrite`: the library `dario.cat/mergo` for maps, with its aliasing.
//!
//! The destination's maps are filled in place, at every level. What it lacks it gets as the very value of the source, not as a copy.

use go_template::{FuncError, FuncMap, Kind, Map, Rest, Value};

use crate::engine::funcs::limits::Walk;

/// Which side wins where both have a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Winner {
    Destination,
    Source,
}

/// Adds the functions.
pub(super) fn register(map: &mut FuncMap) {
    for (name, winner) in [("merge", Winner::Destination), ("mergeOverwrite", Winner::Source)] {
        map.add(name, move |dst: Map, Rest(sources): Rest<Map>| match merge_all(&dst, &sources, winner) {
            // Sprig drops the error, but what exceeds a limit of ours is no result at all.
            Err(Failure::Types) => Ok(Value::from("")),
            Err(Failure::Limit(e)) => Err(e),
            Ok(()) => Ok(Value::Map(dst)),
        });
    }
    for (name, winner) in [("mustMerge", Winner::Destination), ("mustMergeOverwrite", Winner::Source)] {
        map.add(name, move |dst: Map, Rest(sources): Rest<Map>| match merge_all(&dst, &sources, winner) {
            Err(Failure::Types) => Err(FuncError::new("src and dst must be of same type")),
            Err(Failure::Limit(e)) => Err(e),
            Ok(()) => Ok(Value::Map(dst)),
        });
    }
}

enum Failure {
    /// mergo's error for a pointer and something else.
    Types,
    Limit(FuncError),
}

fn merge_all(dst: &Map, sources: &[Map], winner: Winner) -> Result<(), Failure> {
    let mut merge = Merge { winner, types: false };
    for source in sources {
        merge.maps(dst, source, &mut Walk::new()).map_err(Failure::Limit)?;
        if merge.types {
            return Err(Failure::Types);
        }
    }
    Ok(())
}

struct Merge {
    winner: Winner,
    /// mergo's error was met: nothing more is merged.
    types: bool,
}

impl Merge {
    fn maps(&mut self, dst: &Map, src: &Map, walk: &mut Walk) -> Result<(), FuncError> {
        walk.enter(|walk| {
            for (key, value) in src.snapshot() {
                if self.types {
                    break;
                }
                let old = dst.get(&*key);
                if self.takes(old.as_ref(), &value, walk)? {
                    dst.insert(key, value);
                }
            }
            Ok(())
        })
    }

    /// Merges maps; for everything else, says whether the source's value replaces the destination's.
    fn takes(&mut self, old: Option<&Value>, new: &Value, walk: &mut Walk) -> Result<bool, FuncError> {
        let overwrite = self.winner == Winner::Source;
        if matches!(new, Value::Nil) {
            return Ok(overwrite);
        }
        if let (Some(Value::Map(old)), Value::Map(new)) = (old, new) {
            self.maps(old, new, walk)?;
        }
        if let (Some(old @ Value::Object(_)), Value::Map(_)) = (old, new) {
            self.types |= !overwrite && old.kind() == Kind::Ptr;
        }
        let kept = old.filter(|old| old.is_true());
        if let (Some(Value::Map(_)), Value::Map(_)) = (kept, new) {
            return Ok(false);
        }
        Ok(overwrite || kept.is_none())
    }
}
