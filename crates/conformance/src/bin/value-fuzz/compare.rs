//! Judges two renders of the same values.

use std::fmt;

/// The result of `helm template`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rendered {
    Text(Vec<u8>),
    Error(String),
}

/// How this engine's render compares with Helm's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    SameError,
    /// The same apart from places that differ between two runs of Helm.
    Random,
    /// Both refuse, with different text.
    OtherError {
        helm: String,
        ours: String,
    },
    /// One refuses, or the texts differ.
    Different {
        helm: String,
        ours: String,
    },
}

/// Compares a render with Helm's; `again` is a second run of Helm.
pub(crate) fn verdict(helm: &Rendered, again: Option<&Rendered>, ours: &Rendered) -> Verdict {
    match (helm, again, ours) {
        (Rendered::Text(_), _, Rendered::Text(_)) if helm == ours => Verdict::Same,
        (Rendered::Text(helm), again, Rendered::Text(ours)) => {
            let (helm, ours) = (String::from_utf8_lossy(helm), String::from_utf8_lossy(ours));
            let again = match again {
                Some(Rendered::Text(again)) => String::from_utf8_lossy(again),
                _ => helm.clone(),
            };
            first_difference(&helm, &again, &ours)
                .map_or(Verdict::Random, |(helm, ours)| Verdict::Different { helm, ours })
        }
        // Helm prints schema errors in any order.
        (Rendered::Error(helm), _, Rendered::Error(ours)) if sorted(helm) == sorted(ours) => Verdict::SameError,
        (Rendered::Error(helm), Some(Rendered::Error(again)), Rendered::Error(_)) if helm != again => Verdict::Random,
        (Rendered::Error(helm), _, Rendered::Error(ours)) => {
            Verdict::OtherError { helm: helm.clone(), ours: ours.clone() }
        }
        (helm, _, ours) => Verdict::Different { helm: summary(helm), ours: summary(ours) },
    }
}

/// Returns the first line in which our text differs from Helm's although two runs of Helm agree there.
fn first_difference(helm: &str, again: &str, ours: &str) -> Option<(String, String)> {
    let counts = [helm, again, ours].map(|text| text.lines().count());
    if counts[0] != counts[1] {
        return None;
    }
    let lines = helm.lines().zip(again.lines()).zip(ours.lines());
    let different = lines.filter(|((helm, again), _)| helm == again).find(|((helm, _), ours)| helm != ours);
    match different {
        Some(((helm, _), ours)) => Some((helm.to_owned(), ours.to_owned())),
        None if counts[0] != counts[2] => Some((format!("{} lines", counts[0]), format!("{} lines", counts[2]))),
        // All lines agree, so the line endings differ.
        None if helm == again && helm != ours => {
            Some((format!("{} bytes", helm.len()), format!("{} bytes", ours.len())))
        }
        None => None,
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn summary(rendered: &Rendered) -> String {
    match rendered {
        Rendered::Text(text) => format!("{} bytes", text.len()),
        Rendered::Error(error) => error.clone(),
    }
}

/// The number of renders per verdict.
#[derive(Default)]
pub(crate) struct Counts {
    same: u64,
    same_error: u64,
    random: u64,
    other_error: u64,
    pub(crate) different: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Same => &mut self.same,
            Verdict::SameError => &mut self.same_error,
            Verdict::Random => &mut self.random,
            Verdict::OtherError { .. } => &mut self.other_error,
            Verdict::Different { .. } => &mut self.different,
        } += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.same + self.same_error + self.random + self.other_error + self.different;
        write!(f, "{all} renders: {} the same, {} the same but for random parts, ", self.same, self.random)?;
        write!(f, "{} refused alike, {} refused with another text, ", self.same_error, self.other_error)?;
        write!(f, "{} different", self.different)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Rendered {
        Rendered::Text(text.into())
    }

    fn error(text: &str) -> Rendered {
        Rendered::Error(text.into())
    }

    #[test]
    fn renders_are_judged_by_what_two_runs_of_helm_agree_on() {
        let different = |helm: &str, ours: &str| Verdict::Different { helm: helm.to_owned(), ours: ours.to_owned() };
        for (helm, again, ours, expected) in [
            (text("a\n"), text("a\n"), text("a\n"), Verdict::Same),
            (text("a\nx1\n"), text("a\nx2\n"), text("a\nx3\n"), Verdict::Random),
            (text("a\nx1\n"), text("a\nx2\n"), text("b\nx3\n"), different("a", "b")),
            (text("a\n"), text("a\n"), text("a\nb\n"), different("1 lines", "2 lines")),
            (text("a\n"), text("a\n"), text("a"), different("2 bytes", "1 bytes")),
            (text("a\n"), text("a\n"), error("no"), different("2 bytes", "no")),
            (error("no"), error("no"), text("a\n"), different("no", "2 bytes")),
            (error("- a\n- b"), error("- b\n- a"), error("- b\n- a"), Verdict::SameError),
            (error("a"), error("b"), error("c"), Verdict::Random),
            (error("a"), error("a"), error("b"), Verdict::OtherError { helm: "a".into(), ours: "b".into() }),
        ] {
            assert_eq!(verdict(&helm, Some(&again), &ours), expected, "{helm:?} {again:?} {ours:?}");
        }
    }
}
