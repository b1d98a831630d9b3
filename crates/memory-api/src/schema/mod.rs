//! The fields of built-in kinds: which lists have keys, which maps are atomic, and how strategic patches merge.
//!
//! `types.txt` has one line per kind and one per structure, taken from the API server's OpenAPI documents. Custom
//! resources have no declared fields below `spec` and `status`: their maps are granular and their lists atomic.

pub(crate) mod normal;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use crate::Scope;

#[derive(Debug)]
pub(crate) struct BuiltIn {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) scope: Scope,
    pub(crate) structure: &'static str,
    pub(crate) has_status: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// A string, number or boolean.
    Scalar,
    /// Any value: maps are granular, lists atomic.
    Any,
    Struct {
        name: &'static str,
        is_atomic: bool,
    },
    /// Values by key.
    Map {
        of: Box<Type>,
        is_atomic: bool,
    },
    /// Elements, and how they are identified.
    List {
        of: Box<Type>,
        identity: Identity,
    },
}

/// How the elements of a list are identified.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Identity {
    /// Not at all: the list is written as a whole.
    Atomic,
    /// By the whole element.
    Value,
    /// By these of its fields.
    Keys(Vec<&'static str>),
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) of: Type,
    /// The value that identifies an element if the field is missing.
    pub(crate) default: Option<&'static str>,
    pub(crate) presence: Presence,
    /// The strategic patch strategy: `merge`, `retainKeys`, both or none.
    pub(crate) strategy: &'static str,
    pub(crate) merge_key: Option<&'static str>,
}

/// How a field looks if no client sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is absent.
    Optional,
    /// It is null or empty.
    Required,
    /// It is a structure without fields.
    Always,
}

#[derive(Debug, Default)]
pub(crate) struct Struct {
    pub(crate) is_atomic: bool,
    pub(crate) fields: BTreeMap<&'static str, Field>,
}

/// All kinds and structures.
pub(crate) struct Schema {
    pub(crate) kinds: Vec<BuiltIn>,
    structs: HashMap<&'static str, Struct>,
}

pub(crate) const CUSTOM: &str = "CustomResource";

/// The structure of every object's metadata.
pub(crate) const METADATA: &str = "meta.v1.ObjectMeta";

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| parse(include_str!("../../types.txt")));
static NO_FIELDS: LazyLock<Struct> = LazyLock::new(Struct::default);

/// Returns the schema of built-in kinds.
pub(crate) fn schema() -> &'static Schema {
    &SCHEMA
}

impl Schema {
    /// Returns the structure of this name; one without fields if it does not exist.
    pub(crate) fn structure(&self, name: &str) -> &Struct {
        self.structs.get(name).unwrap_or(&NO_FIELDS)
    }
}

impl Type {
    /// Returns the type of whole objects with this structure.
    pub(crate) fn object(structure: &'static str) -> Type {
        Type::Struct { name: structure, is_atomic: false }
    }
}

fn parse(text: &'static str) -> Schema {
    let mut schema = Schema { kinds: Vec::new(), structs: HashMap::new() };
    for line in text.lines() {
        let mut words = line.split(' ');
        match words.next().unwrap_or_default() {
            "kind" => schema.kinds.extend(kind(&words.collect::<Vec<_>>())),
            name => {
                let is_atomic = name.starts_with('!');
                let fields = words.filter_map(|word| word.split_once(':')).map(|(name, of)| (name, field(of)));
                schema.structs.insert(name.trim_start_matches('!'), Struct { is_atomic, fields: fields.collect() });
            }
        }
    }
    schema.structs.insert(CUSTOM, custom());
    schema
}

fn kind(words: &[&'static str]) -> Option<BuiltIn> {
    let [api_version, kind, plural, scope, structure, subresources @ ..] = words else { return None };
    Some(BuiltIn {
        api_version,
        kind,
        plural,
        scope: Scope::of(scope),
        structure,
        has_status: subresources.contains(&"status"),
    })
}

fn custom() -> Struct {
    let field = |of| Field { of, default: None, presence: Presence::Optional, strategy: "", merge_key: None };
    let metadata = Type::object(METADATA);
    let fields = [("apiVersion", Type::Scalar), ("kind", Type::Scalar), ("metadata", metadata), ("spec", Type::Any)];
    let fields = fields.into_iter().chain([("status", Type::Any)]).map(|(name, of)| (name, field(of)));
    Struct { is_atomic: false, fields: fields.collect() }
}

/// Parses `TYPE[^|*][=DEFAULT][~STRATEGY[:MERGE KEY]]`.
fn field(text: &'static str) -> Field {
    let (text, patch) = text.split_once('~').unwrap_or((text, ""));
    let (strategy, merge_key) = patch.split_once(':').map_or((patch, None), |(strategy, key)| (strategy, Some(key)));
    let (text, default) = text.split_once('=').map_or((text, None), |(text, default)| (text, Some(default)));
    let presence = match text.as_bytes().last() {
        Some(b'^') => Presence::Always,
        Some(b'*') => Presence::Required,
        _ => Presence::Optional,
    };
    Field { of: of(text.trim_end_matches(['^', '*'])), default, presence, strategy, merge_key }
}

/// Parses a type: `s`, `@STRUCT`, `{TYPE}`, `[TYPE]`, `[TYPE]set`, `[TYPE]KEY,KEY`, with `!` before atomic types, `?`
/// for any value.
fn of(text: &'static str) -> Type {
    let is_atomic = text.starts_with('!');
    let text = text.trim_start_matches('!');
    let inner = |close: char| text[1..].rsplit_once(close);
    match text.as_bytes().first() {
        Some(b'@') => Type::Struct { name: &text[1..], is_atomic },
        Some(b'{') => Type::Map { of: Box::new(of(inner('}').map_or("?", |(of, _)| of))), is_atomic },
        Some(b'[') => {
            let (element, identity) = inner(']').unwrap_or(("?", ""));
            let identity = match identity {
                "" => Identity::Atomic,
                "set" => Identity::Value,
                keys => Identity::Keys(keys.split(',').collect()),
            };
            Type::List { of: Box::new(of(element)), identity }
        }
        Some(b'?') => Type::Any,
        _ => Type::Scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_built_in_kinds_are_known() {
        let schema = schema();
        let pod = schema.structure("core.v1.PodSpec");
        let containers = &pod.fields["containers"];
        assert_eq!(containers.presence, Presence::Required);
        assert_eq!((containers.strategy, containers.merge_key), ("merge", Some("name")));
        let Type::List { of, identity } = &containers.of else { panic!("{containers:?}") };
        assert_eq!(*identity, Identity::Keys(vec!["name"]));
        assert_eq!(**of, Type::object("core.v1.Container"));
        let port = &schema.structure("core.v1.ContainerPort").fields["protocol"];
        assert_eq!(port.default, Some("TCP"));
        assert!(schema.structure("meta.v1.LabelSelector").is_atomic);
        assert_eq!(pod.fields["nodeSelector"].of, Type::Map { of: Box::new(Type::Scalar), is_atomic: true });
    }

    #[test]
    fn every_structure_that_a_field_names_is_there() {
        fn named(of: &Type, missing: &mut Vec<&'static str>) {
            match of {
                Type::Struct { name, .. } if !schema().structs.contains_key(name) => missing.push(name),
                Type::Map { of, .. } | Type::List { of, .. } => named(of, missing),
                _ => {}
            }
        }
        let mut missing = Vec::new();
        schema().structs.values().flat_map(|of| of.fields.values()).for_each(|field| named(&field.of, &mut missing));
        assert!(missing.is_empty(), "{missing:?}");
    }
}
