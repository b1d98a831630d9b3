//! Sets of templates, scopes, objects with methods, and errors as data.

use std::sync::Arc;

use go_template::{
    Cause, FuncError, FuncMap, Function, Kind, Map, MapType, MissingKey, Object, Options, Param, Scope, Str, Templates,
    Value, parse,
};

fn set(texts: &[(&str, &str)], funcs: &FuncMap) -> Templates {
    let mut templates = Templates::new("set");
    for (name, text) in texts {
        templates.add(&parse(*name, *text, funcs).expect("the text is a template"));
    }
    templates
}

fn text(result: Result<Vec<u8>, FuncError>) -> Result<String, String> {
    result.map(|out| String::from_utf8_lossy(&out).into_owned()).map_err(|error| error.to_string())
}

fn render(template: &str, data: Value, options: Options, funcs: &FuncMap) -> Result<String, String> {
    let templates = Arc::new(set(&[("t", template)], funcs));
    text(Scope::new(templates, options).execute("t", &data))
}

#[test]
fn a_later_template_replaces_an_earlier_one_unless_it_is_empty() {
    let define = |body: &str| format!("{{{{define \"x\"}}}}{body}{{{{end}}}}");
    for (first, second, expected) in
        [("1", "2", "2"), ("1", " \n", "1"), ("1", "{{/* c */}}", "1"), (" ", "2", "2"), ("", "", "")]
    {
        let templates = Arc::new(set(&[("a", &define(first)), ("b", &define(second))], &FuncMap::default()));
        assert_eq!(text(templates.execute("x", &Value::Nil)), Ok(expected.to_owned()), "{first:?} then {second:?}");
    }
}

#[test]
fn an_overlay_does_not_change_its_base() {
    let funcs = FuncMap::default();
    let base = Arc::new(set(&[("a", "base {{template \"x\"}}{{define \"x\"}}1{{end}}")], &funcs));
    let mut over = Templates::overlay(&base);
    over.add(&parse("b", "{{define \"x\"}}2{{end}}{{define \"y\"}}{{end}}", &funcs).expect("the text is a template"));
    assert_eq!(text(Arc::new(over).execute("a", &Value::Nil)), Ok("base 2".to_owned()));
    assert_eq!(text(base.execute("a", &Value::Nil)), Ok("base 1".to_owned()));
    assert!(base.lookup(b"y").is_none());
}

#[test]
fn executing_an_unknown_template_is_a_no_template_error() {
    let error = Arc::new(Templates::new("set")).execute("x", &Value::Nil);
    assert_eq!(text(error), Err("template: no template \"x\" associated with template \"set\"".to_owned()));
}

#[test]
fn functions_can_use_the_host_s_state() {
    let mut funcs = FuncMap::default();
    let count = |scope: &mut Scope<'_>, _: &[Value]| {
        let count = scope.host::<i64>().ok_or("no host")?;
        *count += 1;
        Ok(Value::int(*count))
    };
    funcs.insert("count", Function::new(vec![], None, count));
    let templates = Arc::new(set(&[("t", "{{count}}{{count}}")], &funcs));
    let mut counted = 5i64;
    let out = Scope::new(Arc::clone(&templates), Options::default()).with_host(&mut counted).execute("t", &Value::Nil);
    assert_eq!((text(out), counted), (Ok("67".to_owned()), 7));
}

#[test]
fn errors_of_nested_templates_keep_every_place_as_data() {
    let mut funcs = FuncMap::default();
    funcs.insert(
        "include",
        Function::new(vec![Param::String], None, |scope, args| {
            let out = scope.execute(args[0].as_str().cloned().unwrap_or_default(), &Value::Nil);
            out.map(|out| Value::String(out.into())).map_err(|error| error.context("while including"))
        }),
    );
    let templates = Arc::new(set(&[("a", "\n {{include \"b\"}}"), ("b", "{{nil | len}}")], &funcs));
    let Err(FuncError::Template(outer)) = templates.execute("a", &Value::Nil) else {
        unreachable!("the template fails");
    };
    let place = outer.location.as_ref().map(|l| (l.line, l.column));
    assert_eq!((place, &*outer.context), (Some((2, 3)), "include \"b\""));
    let Cause::Call { function, error: FuncError::Context { source, .. } } = &outer.cause else {
        unreachable!("the cause is the call");
    };
    assert_eq!(function, "include");
    assert_eq!(source.to_string(), "template: b:1:2: executing \"b\" at <nil>: nil is not a command");
}

/// An object with a field and two methods.
#[derive(Debug)]
struct Version;

impl Object for Version {
    fn type_name(&self) -> &str {
        "*semver.Version"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Text" => Some(Value::from("1.2.3")),
            "Empty" => Some(Value::Nil),
            _ => None,
        }
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        match method {
            "Major" => Some((&[], None)),
            "Compare" => Some((&[Param::Object("*semver.Version")], None)),
            "Join" => Some((&[Param::String], Some(Param::Int))),
            _ => None,
        }
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        match method {
            "Major" => Some(Ok(Value::int(1))),
            "Compare" => Some(Err("not comparable".into())),
            "Join" => Some(Ok(Value::int(args.len() as i64))),
            _ => None,
        }
    }
}

#[test]
fn objects_have_fields_and_methods_with_checked_arguments() {
    let at = |context: &str, message: &str| Err(format!("template: t:1:4: executing \"t\" at <{context}>: {message}"));
    let ok = |text: &str| Ok(text.to_owned());
    for (template, expected) in [
        ("{{.v.Text}}", ok("1.2.3")),
        ("{{.v.Major}}", ok("1")),
        ("{{.v.Join \"a\"}}", ok("1")),
        ("{{.v.Join \"a\" 1 2}}", ok("3")),
        ("{{\"a\" | .v.Join}}", ok("1")),
        ("{{.v.Nope}}", at(".v.Nope", "can't evaluate field Nope in type interface {}")),
        ("{{.v.Empty.x}}", at(".v.Empty.x", "nil pointer evaluating interface {}.x")),
        ("{{.v.Text 1}}", at(".v.Text", "Text has arguments but cannot be invoked as function")),
        ("{{.v.Major 1}}", at(".v.Major", "wrong number of args for Major: want 0 got 1")),
        ("{{.v.Compare .v}}", at(".v.Compare", "error calling Compare: not comparable")),
        ("{{.v.Join}}", at(".v.Join", "wrong number of args for Join: want at least 1 got 0")),
    ] {
        let data: Map = [("v", Value::Object(Arc::new(Version)))].into_iter().collect();
        assert_eq!(render(template, Value::Map(data), Options::default(), &FuncMap::default()), expected, "{template}");
    }
}

#[test]
fn arguments_of_methods_are_checked_against_the_types_of_objects() {
    let data = || Value::Map([("v", Value::Object(Arc::new(Version)))].into_iter().collect());
    let error = render("{{.v.Compare \"x\"}}", data(), Options::default(), &FuncMap::default());
    let expected = "template: t:1:13: executing \"t\" at <\"x\">: can't handle \"x\" for arg of type *semver.Version";
    assert_eq!(error, Err(expected.to_owned()));
    let error = render("{{.v.Compare .v.Text}}", data(), Options::default(), &FuncMap::default());
    let expected =
        "template: t:1:15: executing \"t\" at <.v.Text>: wrong type for value; expected *semver.Version; got string";
    assert_eq!(error, Err(expected.to_owned()));
}

#[test]
fn the_values_type_has_the_methods_of_the_options() {
    let size = |_: &mut Scope<'_>, args: &[Value]| Ok(Value::int(args[0].as_map().map_or(0, Map::len) as i64));
    let methods = || Arc::new([("Size", Arc::new(Function::new(vec![Param::Map], None, size)))]);
    let options = || Options { values_methods: methods(), ..Options::default() };
    let data = || [("Size", Value::from("entry")), ("b", Value::Nil)].into_iter().collect::<Map>();
    let named = Value::Map(data().with_type(MapType::Values));
    assert_eq!(render("{{.Size}}", named, options(), &FuncMap::default()), Ok("2".to_owned()));
    assert_eq!(render("{{.Size}}", Value::Map(data()), options(), &FuncMap::default()), Ok("entry".to_owned()));
}

#[test]
fn the_missing_key_option_decides_what_a_missing_key_gives() {
    let data = || Value::Map([("a", Value::Nil)].into_iter().collect());
    let render = |template, missing_key| {
        render(template, data(), Options { missing_key, ..Options::default() }, &FuncMap::default())
    };
    assert_eq!(render("{{.x}}", MissingKey::Invalid), Ok("<no value>".to_owned()));
    assert_eq!(render("{{.x}}", MissingKey::Zero), Ok("<no value>".to_owned()));
    let error = "template: t:1:2: executing \"t\" at <.x>: map has no entry for key \"x\"";
    assert_eq!(render("{{.x}}", MissingKey::Error), Err(error.to_owned()));
}

#[test]
fn a_loop_iterates_over_the_map_as_it_was_at_the_start() {
    let mut funcs = FuncMap::default();
    funcs.add("set", |map: Map, key: Str, value: Value| {
        map.insert(key, value);
        ""
    });
    let data: Map = [("a", 1.0), ("b", 2.0)].into_iter().map(|(k, v)| (k, Value::Float(v))).collect();
    let template = "{{range $k, $v := .}}{{$k}}{{set $ (print $k \"x\") $v}}{{end}} {{len .}}";
    assert_eq!(render(template, Value::Map(data), Options::default(), &funcs), Ok("ab 4".to_owned()));
}
