//! Semantic versions: `semver` and `semverCompare`. Counterpart: Sprig's `semver.go`.

use std::sync::Arc;

use go_template::UintType;
use go_template::{Field, FuncError, FuncMap, Kind, Object, Param, Scope, Str, Value};

use golibs::semver::{Constraint, Error, Version};

pub(super) fn register(map: &mut FuncMap) {
    map.add("semver", |version: Str| -> Result<Value, FuncError> {
        Version::parse(&version.to_text()).map(pointer).map_err(failed)
    });
    map.add("semverCompare", |constraint: Str, version: Str| -> Result<bool, FuncError> {
        let constraint = Constraint::parse(&constraint.to_text()).map_err(failed)?;
        Ok(constraint.check(&Version::parse(&version.to_text()).map_err(failed)?))
    });
}

fn failed(error: Error) -> FuncError {
    FuncError::new(error.to_string())
}

/// A version in a template. `semver` returns a pointer; an increment returns a struct, which has fewer methods in Go.
#[derive(Debug)]
struct VersionObject {
    version: Version,
    pointer: bool,
}

/// The parameter types of the comparison methods.
const COMPARED: [Param; 1] = [Param::Object("*semver.Version")];

fn pointer(version: Version) -> Value {
    Value::Object(Arc::new(VersionObject { version, pointer: true }))
}

fn plain(version: Version) -> Value {
    Value::Object(Arc::new(VersionObject { version, pointer: false }))
}

fn uint64(number: u64) -> Value {
    Value::Uint(number, UintType::Uint64)
}

impl VersionObject {
    fn by_value(&self, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let version = &self.version;
        Some(Ok(match method {
            "Major" => uint64(version.major()),
            "Minor" => uint64(version.minor()),
            "Patch" => uint64(version.patch()),
            "Prerelease" => version.prerelease().into(),
            "Metadata" => version.metadata().into(),
            "String" | "Value" => version.to_string().into(),
            "MarshalText" => Value::Bytes(version.to_string().into()),
            "MarshalJSON" => Value::Bytes(format!("\"{version}\"").into()),
            "IncMajor" => return Some(next(version.inc_major())),
            "IncMinor" => return Some(next(version.inc_minor())),
            "IncPatch" => return Some(next(version.inc_patch())),
            "SetPrerelease" => return Some(text(args).and_then(|t| next(version.with_prerelease(&t)))),
            "SetMetadata" => return Some(text(args).and_then(|t| next(version.with_metadata(&t)))),
            _ => return None,
        }))
    }

    fn by_pointer(&self, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        if matches!(args, [Value::Nil]) {
            return Some(match method {
                "Equal" => Ok(false.into()),
                _ => Err("runtime error: invalid memory address or nil pointer dereference".into()),
            });
        }
        let compare = || other(args).map(|o| self.version.cmp(&o.version));
        Some(match method {
            "Original" => Ok(self.version.original().into()),
            "Compare" => compare().map(|o| Value::int(o as i64)),
            "Equal" => compare().map(|o| o.is_eq().into()),
            "LessThan" => compare().map(|o| o.is_lt().into()),
            "LessThanEqual" => compare().map(|o| o.is_le().into()),
            "GreaterThan" => compare().map(|o| o.is_gt().into()),
            "GreaterThanEqual" => compare().map(|o| o.is_ge().into()),
            _ => return None,
        })
    }
}

impl Object for VersionObject {
    fn type_name(&self) -> &str {
        if self.pointer { "*semver.Version" } else { "semver.Version" }
    }

    fn kind(&self) -> Kind {
        if self.pointer { Kind::Ptr } else { Kind::Struct }
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        Some(match method {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "String" | "IncMajor" | "IncMinor"
            | "IncPatch" | "Value" | "MarshalText" | "MarshalJSON" => (&[], None),
            "SetPrerelease" | "SetMetadata" => (&[Param::String], None),
            "Original" if self.pointer => (&[], None),
            "Compare" | "Equal" | "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" if self.pointer => {
                (&COMPARED, None)
            }
            _ => return None,
        })
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let by_pointer = || self.pointer.then(|| self.by_pointer(method, args)).flatten();
        self.by_value(method, args).or_else(by_pointer)
    }

    fn display(&self) -> Option<Str> {
        Some(self.version.to_string().into())
    }

    fn fields(&self) -> Vec<Field> {
        let version = &self.version;
        vec![
            Field::new("major", uint64(version.major())),
            Field::new("minor", uint64(version.minor())),
            Field::new("patch", uint64(version.patch())),
            Field::new("pre", version.prerelease()),
            Field::new("metadata", version.metadata()),
            Field::new("original", version.original()),
        ]
    }

    fn copied(&self) -> Option<Value> {
        Some(Value::Object(Arc::new(VersionObject { version: Version::default(), pointer: self.pointer })))
    }

    fn data(&self) -> Value {
        self.version.to_string().into()
    }
}

fn next(version: Result<Version, Error>) -> Result<Value, FuncError> {
    version.map(plain).map_err(failed)
}

fn text(args: &[Value]) -> Result<String, FuncError> {
    let text = args.first().and_then(Value::as_str).ok_or("wrong type for value; expected string")?;
    Ok(text.to_text().into_owned())
}

/// Returns the argument of a comparison method.
fn other(args: &[Value]) -> Result<&VersionObject, FuncError> {
    let object = match args.first() {
        Some(Value::Object(object)) => object.downcast_ref::<VersionObject>(),
        _ => None,
    };
    let got = args.first().map_or("nothing", Value::type_name);
    object.ok_or_else(|| FuncError::new(format!("wrong type for value; expected *semver.Version; got {got}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_gos_fields() {
        let version = VersionObject { version: Version::parse("v1.2.3-rc.1+b").unwrap(), pointer: true };
        for (method, expected) in [
            ("Major", "1"),
            ("Prerelease", "rc.1"),
            ("Metadata", "b"),
            ("IncPatch", "1.2.3"),
            ("Original", "v1.2.3-rc.1+b"),
        ] {
            let value = version.by_value(method, &[]).or_else(|| version.by_pointer(method, &[])).unwrap().unwrap();
            assert_eq!(String::from_utf8(go_template::fmt::sprint(&[value])).unwrap(), expected, "{method}");
        }
    }

    #[test]
    fn versions_compare_with_versions_only() {
        let version = VersionObject { version: Version::parse("1.10.0").unwrap(), pointer: true };
        let older = pointer(Version::parse("1.9.0").unwrap());
        assert!(version.by_pointer("GreaterThan", &[older]).unwrap().unwrap().is_true());
        let error = version.by_pointer("LessThan", &["1.9.0".into()]).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "wrong type for value; expected *semver.Version; got string");
    }
}
