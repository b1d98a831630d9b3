//! Finds a resource's values that no template of its chart reads. They are mostly typing errors, which Helm accepts
//! silently.
//!
//! A render finds them. The findings are valid for the generation that was rendered, and the condition keeps them
//! across a restart.

use helm::reads::Unread;
use serde_json::Value;

use crate::reconcile::decide::remembered::UnreadValues;
use crate::reconcile::step_context::StepContext;
use crate::status::condition;
use crate::view::primary::Primary;

/// How many values a message names.
const NAMED: usize = 5;

impl StepContext<'_> {
    /// Records which values of the resource's own `spec` were not read. Does nothing if the author's code maps values,
    /// because it may read any.
    pub(crate) fn note_unread(&self, primary: &Primary, unread: &[Unread]) {
        if self.maps_values() {
            return;
        }
        let own = primary.spec.json().ok().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let message = describe(unread, &own);
        let is_news = !message.is_empty() || primary.status.find(condition::UNREAD_VALUES).is_some();
        let found = is_news.then(|| Box::new(UnreadValues { generation: primary.generation, message }));
        self.shared.memory.change(self.key, |memory| memory.status.unread = found);
    }

    /// Returns the warning about the resource's present values; may be empty.
    pub(crate) fn unread(&self, primary: &Primary) -> String {
        match &self.shared.memory.of(self.key).status.unread {
            Some(found) if found.generation == primary.generation => found.message.clone(),
            _ => known(primary).unwrap_or_default(),
        }
    }
}

/// Returns the warning about this generation that this process or the previous one wrote.
fn known(primary: &Primary) -> Option<String> {
    let condition = primary.status.find(condition::UNREAD_VALUES)?;
    (condition.observed_generation == Some(primary.generation)).then(|| condition.message.to_string())
}

/// Names the unread values that are in `own`, and what was probably meant. Values that the chart documents are not
/// typing errors.
fn describe(unread: &[Unread], own: &Value) -> String {
    let mistakes: Vec<String> =
        unread.iter().filter(|one| !one.is_documented && has(own, &one.path)).map(word).collect();
    if mistakes.is_empty() {
        return String::new();
    }
    let more = match mistakes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("no template of the chart reads {}{more}", mistakes[..mistakes.len().min(NAMED)].join(", "))
}

fn word(unread: &Unread) -> String {
    let path = unread.path.join(".");
    match &unread.nearest {
        Some(nearest) => format!("spec.{path} (did you mean spec.{nearest}?)"),
        None => format!("spec.{path}"),
    }
}

fn has(own: &Value, path: &[String]) -> bool {
    let below = |value: &Value, key: &String| match value {
        Value::Object(table) => table.get(key).cloned(),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?).cloned(),
        _ => None,
    };
    path.iter().try_fold(own.clone(), |value, key| below(&value, key)).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unread(path: &[&str], nearest: Option<&str>) -> Unread {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Unread { path, nearest: nearest.map(str::to_owned), is_documented: false }
    }

    #[test]
    fn a_message_names_the_resources_own_mistakes_with_what_was_meant() {
        let own = json!({"replicaCout": 5, "list": [{"nme": "a"}], "known": 1, "odd": 1});
        let found = [
            unread(&["replicaCout"], Some("replicaCount")),
            unread(&["list", "0", "nme"], None),
            unread(&["fromSecret"], Some("secret")),
            Unread { is_documented: true, ..unread(&["known"], None) },
        ];
        let expected =
            "no template of the chart reads spec.replicaCout (did you mean spec.replicaCount?), spec.list.0.nme";
        assert_eq!(describe(&found, &own), expected);
        assert_eq!(describe(&found[2..], &own), "");
        let many: Vec<Unread> = (0..7).map(|_| unread(&["odd"], None)).collect();
        assert!(describe(&many, &own).ends_with("spec.odd, and 2 more"));
    }
}
