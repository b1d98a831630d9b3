//! `.helmignore`: which files of a chart's folder are left out. Counterpart: Helm's `pkg/ignore`.

use golibs::path_match::Pattern;

use super::LoadError;

/// The rules, in the order in which they decide.
#[derive(Default)]
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    negated: bool,
    directories_only: bool,
    base_name_only: bool,
    /// Nothing if what is left of the line is malformed: it matches nothing then.
    pattern: Option<Pattern>,
}

impl Rules {
    /// Reads the file's lines. Hidden files below `templates/` are ignored by every chart.
    pub(super) fn parse(text: &str) -> Result<Rules, LoadError> {
        let mut rules = Rules::default();
        for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines().chain(["templates/.?*"]) {
            rules.add(line.trim())?;
        }
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), LoadError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(LoadError::new("double-star (**) syntax is not supported"));
        }
        if Pattern::new(line).is_none() {
            return Err(LoadError::new("syntax error in pattern"));
        }
        let (negated, rest) = strip(line, |l| l.strip_prefix('!'));
        let (directories_only, rest) = strip(rest, |l| l.strip_suffix('/'));
        let (rooted, pattern) = strip(rest, |l| l.strip_prefix('/'));
        let base_name_only = !rooted && !pattern.contains('/');
        self.0.push(Rule { negated, directories_only, base_name_only, pattern: Pattern::new(pattern) });
        Ok(())
    }

    /// Whether the path (below the chart's folder) is left out.
    pub(super) fn ignores(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.0 {
            let matches = rule.matches(path);
            if rule.negated {
                if (rule.directories_only && !is_directory) || !matches {
                    return true;
                }
            } else if matches && (is_directory || !rule.directories_only) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn matches(&self, path: &str) -> bool {
        let name = if self.base_name_only { path.rsplit('/').next().unwrap_or(path) } else { path };
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches(name))
    }
}

fn strip<'a>(text: &'a str, by: impl Fn(&'a str) -> Option<&'a str>) -> (bool, &'a str) {
    by(text).map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_ignore_as_helm_does() {
        let rules = Rules::parse("\u{feff}# comment\n*.swp\n/root.txt\ndocs/\na/b*\n").unwrap();
        for (path, is_directory, wanted) in [
            ("x/y.swp", false, true),
            ("root.txt", false, true),
            ("x/root.txt", false, false),
            ("docs", true, true),
            ("docs", false, false),
            ("a/bc", false, true),
            ("x/a/bc", false, false),
            ("templates/.hidden", false, true),
        ] {
            assert_eq!(rules.ignores(path, is_directory), wanted, "{path}");
        }
    }

    #[test]
    fn a_negated_rule_ignores_everything_else() {
        let rules = Rules::parse("!keep.txt").unwrap();
        assert!(!rules.ignores("keep.txt", false));
        assert!(rules.ignores("other.txt", false));
    }

    #[test]
    fn double_stars_are_refused() {
        assert_eq!(Rules::parse("a/**").err().unwrap().to_string(), "double-star (**) syntax is not supported");
    }
}
