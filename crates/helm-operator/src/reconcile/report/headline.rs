//! Puts the object and the cause into the first line of a failure's message. `kubectl get` cuts a text at its first
//! newline, and Helm's texts all start in the same way.
//!
//! Helm's own text follows unchanged.

use crate::status::Fault;

/// The start of Helm's text about schemas.
const SCHEMA: &str = "values don't meet the specifications of the schema(s)";

/// A part of Helm's text about an object that has another owner.
const CONFLICT: &str = " exists and cannot be imported into the current release: ";

/// Returns the fault with the useful line first. `chart` is the root chart's name.
pub(crate) fn arrange(fault: Fault, chart: &str) -> Fault {
    let line = match fault.message.as_str() {
        text if text.starts_with(SCHEMA) => schema(text, chart),
        text if text.contains(CONFLICT) => conflict(text),
        text => place(text),
    };
    match line {
        Some(line) => Fault { message: format!("{line}\n{}", fault.message), ..fault },
        None => fault,
    }
}

/// Returns `spec.size: got string, want integer (and 2 more)` from Helm's list of violations by chart.
fn schema(text: &str, chart: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut of, mut found) = (chart, Vec::new());
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.contains([' ', '\''])) {
            of = name;
        }
        // A line is explained by the following ones if they are indented further.
        let is_explained = lines.get(at + 1).is_some_and(|next| indent(next) > indent(line));
        let violation = line.trim_start().strip_prefix("- at '").filter(|_| !is_explained);
        found.extend(violation.and_then(|rest| rest.split_once("': ")).map(|(pointer, what)| (of, pointer, what)));
    }
    let (of, pointer, what) = *found.first()?;
    let path = format!("{}{}", if of == chart { "spec" } else { "" }, pointer.replace('/', "."));
    let owner = if of == chart { String::new() } else { format!("values of subchart {of}: ") };
    let more = match found.len() {
        1 => String::new(),
        all => format!(" (and {} more)", all - 1),
    };
    Some(format!("{owner}{path}: {what}{more}").replace(": : ", ": "))
}

/// Returns the object, and what to do.
fn conflict(text: &str) -> Option<String> {
    let (before, why) = text.split_once(CONFLICT)?;
    let object = before.rsplit([':', ';']).next()?.trim();
    let owner = why.strip_prefix("it belongs to ").and_then(|owner| owner.split(';').next());
    let owner = owner.map_or_else(|| "is not part of this release".to_owned(), |owner| format!("belongs to {owner}"));
    Some(format!(
        "{object} {owner}: rename this resource, or set its annotation helm.sdk.operatorframework.io/adopt to \"true\" to take it over, as far as `adopt` in watches.yaml grants"
    ))
}

/// Returns `web/templates/a.yaml:3:4: nil pointer …`. Helm's stack of places starts with a line that contains only a
/// place, and ends with the cause.
fn place(text: &str) -> Option<String> {
    let (first, rest) = text.split_once('\n')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = first.rsplit(':').take(2).filter(|part| is_number(part)).count();
    let is_place = numbers > 0 && !first.contains(' ');
    let cause = rest.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    is_place.then(|| format!("{first}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::condition;
    use crate::status::reason::Reason;

    fn first(message: &str) -> String {
        let fault =
            Fault { condition: condition::IRRECONCILABLE, reason: Reason::InvalidValues, message: message.into() };
        let arranged = arrange(fault, "shop").message;
        assert!(arranged.ends_with(message), "Helm's text follows: {arranged}");
        arranged.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn violations_of_a_schema_begin_with_the_value_and_the_rule() {
        let head = "values don't meet the specifications of the schema(s) in the following chart(s):";
        let check = |violations: &str, expected: &str| assert_eq!(first(&format!("{head}\n{violations}")), expected);
        check("shop:\n- at '/replicaCount': got string, want integer\n", "spec.replicaCount: got string, want integer");
        check(
            "shop:\n- at '/a': minimum: got 1, want 2\n- at '/b/c': got null, want string\ndb:\n- at '/d': x\n",
            "spec.a: minimum: got 1, want 2 (and 2 more)",
        );
        check(
            "db:\n- at '/port': got string, want integer\n",
            "values of subchart db: .port: got string, want integer",
        );
        check("shop:\n- at '': missing property 'size'\n", "spec: missing property 'size'");
        check(
            "shop:\n- at '/image': 'allOf' failed\n  - at '/image/tag': got number, want string\n",
            "spec.image.tag: got number, want string",
        );
        check("shop:\nunexpected EOF", head);
    }

    #[test]
    fn a_conflict_begins_with_the_object_and_what_helps() {
        let text = "unable to continue with install: ConfigMap \"a\" in namespace \"ns\" exists and cannot be imported into the current release: invalid ownership metadata; x";
        let expected = "ConfigMap \"a\" in namespace \"ns\" is not part of this release: rename this resource, or set its annotation helm.sdk.operatorframework.io/adopt to \"true\" to take it over, as far as `adopt` in watches.yaml grants";
        assert_eq!(first(text), expected);
        let owned = "ConfigMap \"a\" exists and cannot be imported into the current release: it belongs to release \"x\" in namespace \"y\"; Service \"b\" exists and cannot be imported into the current release: z";
        assert!(first(owned).starts_with("ConfigMap \"a\" belongs to release \"x\" in namespace \"y\": rename"));
    }

    #[test]
    fn a_failing_template_begins_with_its_place_and_the_cause() {
        let stack = "shop/templates/a.yaml:3:12\n  executing \"shop/templates/a.yaml\" at <.Values.a.b>:\n    nil pointer evaluating interface {}.b";
        assert_eq!(first(stack), "shop/templates/a.yaml:3:12: nil pointer evaluating interface {}.b");
        let own = "execution error at (shop/templates/a.yaml:3:4): size is required\nread the README";
        assert_eq!(first(own), "execution error at (shop/templates/a.yaml:3:4): size is required");
        assert_eq!(first("cannot apply Service \"a\": refused"), "cannot apply Service \"a\": refused");
    }
}
