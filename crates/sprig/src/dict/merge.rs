//! `merge` and `mergeOverwrite`. Counterpart: the library `dario.cat/mergo` for maps, including its aliasing.
//!
//! Fills the destination's maps in place, on every level. Shares missing values with the source instead of copying them.

use go_template::{FromValue as _, FuncError, FuncMap, Function, Kind, Map, Param, Scope, Value};

use crate::limits::Walk;

/// The side whose value wins if both have one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Winner {
    Destination,
    Source,
}

pub(super) fn register(map: &mut FuncMap) {
    for (name, winner) in [("merge", Winner::Destination), ("mergeOverwrite", Winner::Source)] {
        // Sprig ignores errors, but exceeding one of our own limits must fail.
        add(map, name, winner, || Ok(Value::from("")));
    }
    for (name, winner) in [("mustMerge", Winner::Destination), ("mustMergeOverwrite", Winner::Source)] {
        add(map, name, winner, || Err(FuncError::new("src and dst must be of same type")));
    }
}

fn add(map: &mut FuncMap, name: &str, winner: Winner, types_differ: fn() -> Result<Value, FuncError>) {
    let merge = move |scope: &mut Scope<'_>, args: &[Value]| {
        let maps: Vec<Map> = args.iter().map(Map::from_value).collect();
        let Some((dst, sources)) = maps.split_first() else { return types_differ() };
        // Go's nil map cannot be filled, so the result is a new map.
        let made = (dst.is_nil() && sources.iter().any(|source| !source.is_nil())).then(Map::default);
        let dst = made.as_ref().unwrap_or(dst);
        sources.iter().for_each(|source| scope.note_change(dst, &Value::Map(source.clone())));
        match merge_all(dst, sources, winner) {
            Err(Failure::Types) => types_differ(),
            Err(Failure::Limit(e)) => Err(e),
            Ok(()) => Ok(Value::Map(dst.clone())),
        }
    };
    map.insert(name, Function::new(vec![Param::Map], Some(Param::Map), merge));
}

enum Failure {
    /// mergo's error for merging a pointer with another type.
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
    /// Whether mergo's error occurred, which stops the merge.
    types: bool,
}

impl Merge {
    fn maps(&mut self, dst: &Map, src: &Map, walk: &mut Walk) -> Result<(), FuncError> {
        walk.enter(src.len(), |walk| {
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

    /// Merges maps. Returns whether the source's value must replace the destination's.
    fn takes(&mut self, old: Option<&Value>, new: &Value, walk: &mut Walk) -> Result<bool, FuncError> {
        let overwrite = self.winner == Winner::Source;
        if matches!(new, Value::Nil) {
            return Ok(overwrite);
        }
        if let (Some(Value::Map(old)), Value::Map(new)) = (old, new)
            && !old.is_nil()
        {
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
