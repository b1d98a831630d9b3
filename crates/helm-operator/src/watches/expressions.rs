//! The CEL expressions of an entry: `readiness` rules by kind, and `status` fields (docs/readiness.md).

use std::sync::Arc;

use golibs::shorten::{MAX_MESSAGE, shorten};
use helm_release::kube::Unready;
use serde_json::Value;

use super::Error;
use super::decode::wrong;
use super::node::{Entry, Node};
use crate::cel::{self, Expression};

/// The status fields that the operator itself writes.
const OUR_FIELDS: [&str; 8] = [
    "conditions",
    "deployedRelease",
    "history",
    "inventory",
    "lastHandled",
    "nextAttempt",
    "observedGeneration",
    "readyObjects",
];
/// The maximum number of rules, and of fields, in an entry.
const MOST: usize = 32;

/// The expressions of one entry.
#[derive(Clone, Debug, Default)]
pub struct Expressions {
    rules: Vec<Rule>,
    fields: Vec<Field>,
}

/// A computed status field, with its expression.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) value: Expression,
}

/// The expressions that decide whether objects of a kind are ready, instead of kstatus' rules. `self` is the object.
#[derive(Clone, Debug)]
struct Rule {
    group: String,
    kind: String,
    ready: Expression,
    failed: Option<Expression>,
    message: Option<Expression>,
}

impl Expressions {
    /// Judges an object by its kind's rule. Returns `None` if there is no rule, `Some(None)` if the object is ready,
    /// and otherwise the reason why it is not.
    pub(crate) fn judge(&self, group: &str, kind: &str, object: &str) -> Option<Option<Unready>> {
        Some(self.rule(group, kind)?.judge(object))
    }

    /// Returns whether a rule judges a kind's objects.
    pub(crate) fn has_rule(&self, group: &str, kind: &str) -> bool {
        self.rule(group, kind).is_some()
    }

    /// Returns whether a status field reads a kind's objects.
    pub(crate) fn reads(&self, group: &str, kind: &str) -> bool {
        self.fields.iter().any(|field| field.reads(group, kind))
    }

    /// Returns the computed status fields.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rule(&self, group: &str, kind: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.group == group && rule.kind == kind)
    }
}

impl Field {
    /// Returns whether the field reads a kind's objects.
    pub(crate) fn reads(&self, group: &str, kind: &str) -> bool {
        self.value.kinds.iter().any(|name| names(name, group, kind))
    }
}

/// Returns whether `objects.NAME` means this kind. The name is `Deployment`, in any group, or
/// `Certificate.cert-manager.io`.
pub(crate) fn names(name: &str, group: &str, kind: &str) -> bool {
    // Expressions cannot name Secrets. This excludes them in any case.
    (group, kind) != ("", "Secret")
        && match name.split_once('.') {
            Some((named, of)) => named == kind && of == group,
            None => name == kind,
        }
}

impl Rule {
    fn judge(&self, object: &str) -> Option<Unready> {
        let object: Value = serde_json::from_str(object).unwrap_or_default();
        let variables: &cel::Variables<'_> = &[("self", &object)];
        let verdict = |failed, why: String| {
            let progress = helm_release::kube::progress_of(&object["status"]);
            let why = shorten(&why, MAX_MESSAGE).into_owned();
            // The rule's message reads the object.
            Some(Unready { failed, why, quotes: true, progress })
        };
        let fails = |what: &str, fault: cel::Fault| format!("the rule {what:?} of watches.yaml fails: {fault}");
        let why = |default: &str| match self.message.as_ref().map(|message| message.text(variables)) {
            Some(Ok(message)) if !message.is_empty() => message,
            Some(Err(fault)) => fails("message", fault),
            _ => default.to_owned(),
        };
        match self.failed.as_ref().map_or(Ok(false), |failed| failed.is_true(variables)) {
            Ok(true) => return verdict(true, why("its rule says so")),
            Err(fault) => return verdict(false, fails("failed", fault)),
            Ok(false) => {}
        }
        match self.ready.is_true(variables) {
            Ok(true) => None,
            Ok(false) => verdict(false, why("its rule is not met")),
            Err(fault) => verdict(false, fails("ready", fault)),
        }
    }
}

/// Decodes `readiness`: a list of rules.
pub(super) fn readiness(expressions: &mut Expressions, entry: &Entry) -> Result<(), Error> {
    let rules = entry.value.list().map_err(|what| wrong(entry, what))?;
    let rules = rules.iter().map(|node| rule(entry, node)).collect::<Result<Vec<_>, _>>()?;
    expressions.rules = limited(entry, rules)?;
    let kinds: std::collections::HashSet<_> = expressions.rules.iter().map(|rule| (&rule.group, &rule.kind)).collect();
    if kinds.len() < expressions.rules.len() {
        return Err(wrong(entry, "two rules for one kind".into()));
    }
    Ok(())
}

fn rule(entry: &Entry, node: &Node) -> Result<Rule, Error> {
    let fields = node.map().map_err(|what| wrong(entry, what))?;
    let (mut group, mut kind, mut ready, mut failed, mut message) = (String::new(), String::new(), None, None, None);
    for field in fields {
        let expression = || compile(entry, field, &["self"]);
        match &*field.key {
            "group" => group = text(field)?,
            "kind" => kind = text(field)?,
            "ready" => ready = Some(expression()?),
            "failed" => failed = Some(expression()?),
            "message" => message = Some(expression()?),
            other => {
                return Err(wrong(
                    field,
                    format!("unknown key; readiness has group, kind, ready, failed and message, not {other}"),
                ));
            }
        }
    }
    if kind.is_empty() {
        return Err(wrong(entry, "a rule needs a kind".into()));
    }
    if (group.as_str(), kind.as_str()) == ("", "Secret") {
        return Err(wrong(entry, cel::Error::Secrets.to_string()));
    }
    let ready = ready.ok_or_else(|| wrong(entry, format!("the rule for {kind} needs \"ready\"")))?;
    Ok(Rule { group, kind, ready, failed, message })
}

/// Decodes `status`: a mapping from fields to expressions.
pub(super) fn status(expressions: &mut Expressions, entry: &Entry) -> Result<(), Error> {
    let fields = entry.value.map().map_err(|what| wrong(entry, what))?;
    let field = |field: &Entry| {
        if OUR_FIELDS.contains(&&*field.key) {
            return Err(wrong(field, "the operator itself writes this field of the status".into()));
        }
        Ok(Field { name: field.key.as_str().into(), value: compile(entry, field, &["self", "objects"])? })
    };
    expressions.fields = limited(entry, fields.iter().map(field).collect::<Result<Vec<_>, _>>()?)?;
    Ok(())
}

fn limited<T>(entry: &Entry, all: Vec<T>) -> Result<Vec<T>, Error> {
    if all.len() <= MOST {
        Ok(all)
    } else {
        Err(wrong(entry, format!("has {} entries; at most {MOST} are allowed", all.len())))
    }
}

fn text(entry: &Entry) -> Result<String, Error> {
    match &entry.value {
        Node::Null => Ok(String::new()),
        value => value.string().map(str::to_owned).map_err(|what| wrong(entry, what)),
    }
}

fn compile(within: &Entry, field: &Entry, variables: &[&str]) -> Result<Expression, Error> {
    let source = text(field)?;
    Expression::compile(&source, variables).map_err(|cause| Error::Value {
        line: field.line,
        what: format!("{}: {}: {source:?}: {cause}", within.key, field.key),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::parse;
    use super::*;

    fn expressions(rest: &str) -> Result<Expressions, String> {
        let text = format!("- version: v1\n  kind: Web\n{rest}");
        let parsed = parse(&text, |_| None).map_err(|error| error.to_string())?;
        Ok(parsed.watches.into_iter().next().unwrap().expressions)
    }

    const RULE: &str = "  readiness:
  - group: x.y
    kind: Db
    ready: self.status.phase == 'Up'
    failed: self.status.?phase.orValue('') == 'Broken'
    message: \"'phase ' + self.status.phase\"
";

    #[test]
    fn a_rule_decides_and_says_why() {
        let all = expressions(RULE).unwrap();
        let judge = |status: Value| {
            all.judge("x.y", "Db", &json!({"status": status}).to_string()).unwrap().map(|u| (u.failed, u.why))
        };
        assert_eq!(judge(json!({"phase": "Up"})), None);
        assert_eq!(judge(json!({"phase": "Starting"})), Some((false, "phase Starting".into())));
        assert_eq!(judge(json!({"phase": "Broken"})), Some((true, "phase Broken".into())));
        let fails = "the rule \"ready\" of watches.yaml fails: no such key: phase";
        assert_eq!(judge(json!({})), Some((false, fails.into())));
        assert!(all.judge("x.y", "Other", "{}").is_none() && !all.has_rule("", "Db"));
        assert!(all.judge("x.y", "Db", "not JSON").unwrap().is_some());
        let (_, long) = judge(json!({"phase": "x".repeat(100_000)})).unwrap();
        assert!(long.len() <= MAX_MESSAGE && long.starts_with("phase xxx"), "{} bytes", long.len());
    }

    #[test]
    fn kinds_are_named_with_or_without_their_group() {
        let all = expressions("  status:\n    a: size(objects.Deployment)\n    b: size(objects['Db.x.y'])\n").unwrap();
        for (group, kind, reads) in [
            ("apps", "Deployment", true),
            ("other", "Deployment", true),
            ("x.y", "Db", true),
            ("y", "Db", false),
            ("", "Secret", false),
        ] {
            assert_eq!(all.reads(group, kind), reads, "{group} {kind}");
        }
        assert!(["Secret", "Secret."].iter().all(|name| !names(name, "", "Secret")));
        assert!(names("Pod.", "", "Pod"));
    }

    #[test]
    fn the_examples_in_the_documentation_are_valid() {
        let text = include_str!("../../../../docs/readiness.md");
        let examples: String = text
            .lines()
            .filter(|line| line.starts_with("    ") && !line.contains("is not ready:"))
            .map(|line| format!("{}\n", &line[2..]))
            .collect();
        let all = expressions(&examples).unwrap();
        assert_eq!((all.rules.len(), all.fields.len()), (2, 3));
    }

    #[test]
    fn mistakes_name_line_and_expression() {
        for (rest, expected) in [
            ("  readiness: x\n", "line 3: readiness: expected a list, found a string"),
            ("  readiness:\n  - ready: 'true'\n", "line 3: readiness: a rule needs a kind"),
            ("  readiness:\n  - kind: Db\n", "line 3: readiness: the rule for Db needs \"ready\""),
            ("  readiness:\n  - kind: Db\n    ready: self.(\n", "line 5: readiness: ready: \"self.(\": 1:"),
            ("  readiness:\n  - kind: Db\n    reddy: a\n", "line 5: reddy: unknown key"),
            ("  readiness:\n  - kind: Db\n    ready: a\n", "line 5: readiness: ready: \"a\": unknown variable \"a\""),
            ("  readiness:\n  - kind: Secret\n    ready: 'true'\n", "line 3: readiness: Secrets are never given"),
            (
                &RULE.replace("self.status.phase == 'Up'", "objects.Pod == 1"),
                "line 6: readiness: ready: \"objects.Pod == 1\": unknown variable",
            ),
            ("  status: [a]\n", "line 3: status: expected a mapping, found a list"),
            ("  status:\n    conditions: '[]'\n", "line 4: conditions: the operator itself writes"),
            ("  status:\n    a: objects.Secret\n", "line 4: status: a: \"objects.Secret\": Secrets are never given"),
        ] {
            let error = expressions(rest).unwrap_err();
            assert!(error.starts_with(expected), "{rest}: {error}");
        }
        let many: String = (0..33).map(|n| format!("    f{n}: '1'\n")).collect();
        assert!(
            expressions(&format!("  status:\n{many}")).unwrap_err().ends_with("has 33 entries; at most 32 are allowed")
        );
        let twice = "  readiness: [{kind: A, ready: 'true'}, {kind: A, ready: 'true'}]\n";
        assert!(expressions(twice).unwrap_err().ends_with("two rules for one kind"));
    }
}
