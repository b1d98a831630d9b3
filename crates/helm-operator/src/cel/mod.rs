//! Compiles the CEL expressions of watches.yaml once, and evaluates them within a budget (docs/readiness.md,
//! docs/decisions/0024-cel.md).
//!
//! Expressions are pure: they see only the variables that they are given and a fixed library of functions, but no clock
//! and no cluster.

mod meter;
mod value;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use ::cel::parser::Expression as Ast;
use ::cel::{Context, Env, ExecutionError};
use serde_json::Value;

pub(crate) use meter::BUDGET;

/// The maximum length of a source, in bytes.
pub(crate) const MAX_SOURCE: usize = 2048;
/// The maximum nesting of an expression. Evaluation is recursive.
pub(crate) const MAX_DEPTH: usize = 32;

/// The sizes of the stacks for compiling and evaluating. Only the part that is used takes memory.
const COMPILE_STACK: usize = 64 << 20;
const EVALUATE_STACK: usize = 16 << 20;

/// The functions and macros of CEL's standard library that expressions may call.
pub(crate) const STANDARD: [&str; 9] =
    ["size", "contains", "startsWith", "endsWith", "int", "uint", "double", "string", "bool"];
/// The functions of cel-go's extension `strings` that expressions may call. The others, and `matches`, can produce much
/// work or output from little input.
pub(crate) const STRINGS: [&str; 9] =
    ["charAt", "indexOf", "lastIndexOf", "lowerAscii", "upperAscii", "trim", "split", "substring", "join"];
/// The functions of the optional library, for `object.?field.orValue(0)`.
pub(crate) const OPTIONAL: [&str; 6] = ["of", "none", "hasValue", "value", "or", "orValue"];

/// The environment: the standard library, `strings`, and the meter's own functions.
static ENV: LazyLock<Result<Arc<Env>, ::cel::DeclarationError>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(::cel::extensions::strings)?;
    meter::declare(&mut env)?;
    Ok(Arc::new(env))
});

fn env() -> Result<Arc<Env>, Error> {
    ENV.clone().map_err(|error| Error::Syntax(error.to_string()))
}

#[derive(Clone)]
pub(crate) struct Expression {
    pub(crate) source: Arc<str>,
    ast: Arc<Ast>,
    /// The kinds whose objects the expression reads, as it names them: `Deployment` or `Certificate.cert-manager.io`.
    pub(crate) kinds: BTreeSet<String>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)
    }
}

/// The reason why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("the expression has {0} bytes; at most {MAX_SOURCE} are allowed")]
    TooLong(usize),
    #[error("the expression nests deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("{0}")]
    Syntax(String),
    #[error("unknown variable {0:?}")]
    Variable(String),
    #[error("unknown function {0:?}")]
    Function(String),
    #[error("\"objects\" must be followed by a kind, as in objects.Deployment or objects[\"Kind.group\"]")]
    Objects,
    #[error("Secrets are never given to expressions: status and conditions are public")]
    Secrets,
    #[error("the argument of join must be a literal of at most 16 bytes")]
    Separator,
}

/// The reason why an expression has no result. Contains no data of objects except names of missing fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("takes more than {BUDGET} steps")]
    Budget,
    #[error("{0}")]
    Failed(String),
}

/// The variables of an evaluation, by name.
pub(crate) type Variables<'a> = [(&'a str, &'a Value)];

impl Expression {
    /// Compiles an expression with these variables. `objects` is special: its first field names a kind.
    pub(crate) fn compile(source: &str, variables: &[&str]) -> Result<Expression, Error> {
        if source.len() > MAX_SOURCE {
            return Err(Error::TooLong(source.len()));
        }
        if nesting(source) > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        // The parser recurses for each operator and bracket, before the nesting is known.
        stacker::grow(COMPILE_STACK, || Expression::compile_here(source, variables))
    }

    fn compile_here(source: &str, variables: &[&str]) -> Result<Expression, Error> {
        let program = env()?.compile(source).map_err(|errors| Error::Syntax(first_line(&errors)))?;
        let mut meter = meter::Meter::new(variables);
        let ast = Arc::new(meter.meter(program.expression().clone())?);
        Ok(Expression { source: source.into(), ast, kinds: meter.kinds })
    }

    /// Evaluates the expression. A missing variable is an error of the expression.
    pub(crate) fn evaluate(&self, variables: &Variables<'_>) -> Result<Value, Fault> {
        // A bug in the interpreter must not end the watch that delivers objects.
        let evaluated = catch_unwind(AssertUnwindSafe(|| stacker::grow(EVALUATE_STACK, || self.run(variables))));
        evaluated.unwrap_or_else(|_| Err(Fault::Failed("the interpreter panicked, which is a bug".into())))
    }

    fn run(&self, variables: &Variables<'_>) -> Result<Value, Fault> {
        let env = env().map_err(|error| Fault::Failed(error.to_string()))?;
        let mut context = Context::with_env(env);
        for (name, value) in variables {
            context.add_variable_from_value(*name, value::to_cel(value));
        }
        meter::fill();
        let result = context.resolve(&self.ast);
        if meter::is_empty() {
            return Err(Fault::Budget);
        }
        value::from_cel(&result.map_err(|error| Fault::Failed(words(&error)))?)
    }

    /// Evaluates an expression whose result must be true or false.
    pub(crate) fn is_true(&self, variables: &Variables<'_>) -> Result<bool, Fault> {
        match self.evaluate(variables)? {
            Value::Bool(result) => Ok(result),
            other => Err(Fault::Failed(format!("must be true or false, not {}", value::type_of(&other)))),
        }
    }

    /// Evaluates an expression whose result must be a string.
    pub(crate) fn text(&self, variables: &Variables<'_>) -> Result<String, Fault> {
        match self.evaluate(variables)? {
            Value::String(text) => Ok(text),
            other => Err(Fault::Failed(format!("must be a string, not {}", value::type_of(&other)))),
        }
    }
}

/// Returns the maximum nesting of brackets and unary operators, including those in string literals.
fn nesting(source: &str) -> usize {
    let (mut open, mut deepest, mut unary) = (0_usize, 0, 0);
    for c in source.chars().filter(|c| !c.is_whitespace()) {
        unary = if matches!(c, '!' | '-') { unary + 1 } else { 0 };
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open + unary);
    }
    deepest
}

fn first_line(errors: &::cel::ParseErrors) -> String {
    let first = errors.errors.first().map(|error| error.to_string()).unwrap_or_default();
    let line = first.lines().next().unwrap_or_default();
    line.trim_start_matches("ERROR: <input>:").trim().to_owned()
}

/// Returns the error's message without the values that caused it.
fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to {name:?}"),
        ExecutionError::NoSuchOverload(overload) => overload.to_string(),
        ExecutionError::UnexpectedType { want, .. } => format!("unexpected type; want {want}"),
        ExecutionError::FunctionError { function, .. } => format!("{function} failed"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".into(),
        ExecutionError::Overflow(..) => "overflow".into(),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".into(),
        ExecutionError::ValuesNotComparable(..) | ExecutionError::UnsupportedBinaryOperator(..) => {
            "operands of different types".into()
        }
        _ => "invalid operation".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(source: &str, object: Value) -> Result<Value, String> {
        let expression = Expression::compile(source, &["self"]).map_err(|error| error.to_string())?;
        expression.evaluate(&[("self", &object)]).map_err(|fault| fault.to_string())
    }

    fn refused(source: &str) -> String {
        Expression::compile(source, &["self", "objects"]).unwrap_err().to_string()
    }

    #[test]
    fn expressions_read_objects_as_json() {
        let object = json!({
            "spec": {"replicas": 3, "ratio": 0.5, "type": "LoadBalancer"},
            "status": {"ready": 2, "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        for (source, expected) in [
            ("self.status.ready >= self.spec.replicas", json!(false)),
            ("self.status.ready + 1 == self.spec.replicas", json!(true)),
            ("self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", json!(true)),
            ("self.status.conditions.filter(c, c.status != 'True').map(c, c.type)", json!(["Other"])),
            ("self.status.conditions.map(c, c.type).join(', ')", json!("Ready, Other")),
            ("has(self.status.missing) ? 1 : 2", json!(2)),
            ("self.status.?missing.orValue(7)", json!(7)),
            ("self.status.?ready.orValue(7)", json!(2)),
            ("string(self.status.ready) + '/' + string(self.spec.replicas)", json!("2/3")),
            ("{'a': [1, 2.5, true, null]}", json!({"a": [1, 2.5, true, null]})),
            ("self.spec.ratio * 2.0", json!(1.0)),
            ("self.spec.type.lowerAscii().substring(0, 4)", json!("load")),
            ("size(self.status.conditions)", json!(2)),
            ("self.spec", object["spec"].clone()),
        ] {
            assert_eq!(run(source, object.clone()), Ok(expected), "{source}");
        }
    }

    #[test]
    fn faults_name_fields_and_types_but_no_values() {
        let object = json!({"password": "s3cret", "list": [1], "n": 1});
        for (source, expected) in [
            ("self.missing", "no such key: missing"),
            ("self.list[3]", "index out of bounds"),
            ("self.n / 0", "division by zero"),
        ] {
            assert_eq!(run(source, object.clone()), Err(expected.to_owned()), "{source}");
        }
        for source in [
            "self.password + 1",
            "self.password < 1",
            "self.password ? 1 : 2",
            "-self.password",
            "int(self.password)",
            "self.list[self.password]",
        ] {
            let error = run(source, object.clone()).unwrap_err();
            assert!(!error.contains("s3cret") && !error.is_empty(), "{source}: {error}");
        }
        let text = Expression::compile("self.n", &["self"]).unwrap();
        assert_eq!(text.is_true(&[("self", &object)]).unwrap_err().to_string(), "must be true or false, not a number");
        assert_eq!(text.text(&[("self", &object)]).unwrap_err().to_string(), "must be a string, not a number");
    }

    #[test]
    fn only_the_library_and_the_given_variables_may_be_used() {
        for (source, expected) in [
            ("other.status", "unknown variable \"other\""),
            ("[1].map(x, y)", "unknown variable \"y\""),
            ("self.matches('a')", "unknown function \"matches\""),
            ("self.name.replace('a', 'b')", "unknown function \"replace\""),
            ("now()", "unknown function \"now\""),
            ("['a'].join(self.name)", "the argument of join must be a literal of at most 16 bytes"),
            ("['a'].join('12345678901234567')", "the argument of join must be a literal of at most 16 bytes"),
            ("Message{a: 1}", "unknown function \"Message\""),
            ("objects.Secret", "Secrets are never given to expressions: status and conditions are public"),
            ("objects['Secret'].a", "Secrets are never given to expressions: status and conditions are public"),
            ("objects['Secret.'].a", "Secrets are never given to expressions: status and conditions are public"),
        ] {
            assert_eq!(refused(source), expected, "{source}");
        }
        for source in ["objects", "size(objects)", "objects[self.kind]", "objects.map(k, k)"] {
            assert!(refused(source).starts_with("\"objects\" must be followed by a kind"), "{source}");
        }
        assert!(refused("self.").starts_with("1:"), "{}", refused("self."));
        let both =
            "size(objects.Deployment) + size(objects['Certificate.cert-manager.io']) + size(objects.?Pod.orValue({}))";
        let kinds = Expression::compile(both, &["objects"]).unwrap();
        assert_eq!(kinds.kinds.iter().collect::<Vec<_>>(), ["Certificate.cert-manager.io", "Deployment", "Pod"]);
    }

    #[test]
    fn length_and_depth_are_limited() {
        assert_eq!(
            refused(&format!("'{}'", "x".repeat(MAX_SOURCE))),
            "the expression has 2050 bytes; at most 2048 are allowed"
        );
        let too_deep = "the expression nests deeper than 32";
        assert_eq!(refused(&["1"; 40].join("+")), too_deep);
        assert_eq!(refused(&format!("self{}", ".a".repeat(40))), too_deep);
        for hostile in ["(".repeat(2000), "[".repeat(2000), "!".repeat(2000), "-(!".repeat(500), "!!(".repeat(600)] {
            assert!(!refused(&hostile).is_empty());
        }
        assert_eq!(run(&["1"; 30].join("+"), Value::Null), Ok(json!(30)));
    }

    #[test]
    fn work_is_bounded_however_it_is_done() {
        let object = json!({"list": (0..1000).collect::<Vec<i32>>(), "text": "x".repeat(100_000)});
        let doubled = |from: &str, times: usize| format!("{from}{}", ".map(x, x + x)".repeat(times));
        for source in [
            "self.list.all(x, self.list.all(y, self.list.all(z, z >= 0)))".to_owned(),
            "self.list.map(x, self.list.map(y, self.list))".to_owned(),
            "self.list.exists(x, self.text.contains('y'))".to_owned(),
            "self.list.map(x, self.text + self.text)".to_owned(),
            "self.list.all(x, self == self)".to_owned(),
            "self.list.map(x, self.text.split(''))".to_owned(),
            doubled("[self.list]", 28),
            "[0].all(a, self.list.all(x, self.list.all(y, 1 / 0 == 1 || self.list.all(z, true)))) || true".to_owned(),
        ] {
            let began = std::time::Instant::now();
            assert_eq!(run(&source, object.clone()), Err(Fault::Budget.to_string()), "{source}");
            assert!(began.elapsed().as_secs() < 10, "{source}: {:?}", began.elapsed());
        }
        assert_eq!(run("self.list.all(x, x < 1000)", object), Ok(json!(true)));
    }
}
