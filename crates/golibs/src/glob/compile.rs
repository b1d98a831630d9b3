//! Compiles a parsed pattern into a matcher. Counterpart: gobwas' `compiler`, whose choices decide which patterns its bugs affect.

use super::matcher::{Matcher, SEPARATOR, Tree};
use super::parse::Node;

pub(super) fn compile(node: Node) -> Matcher {
    optimized(match node {
        Node::Leaf(matcher) => matcher,
        Node::AnyOf(alternatives) => match without_common(&alternatives) {
            Some(factored) => compile(factored),
            None => Matcher::AnyOf(alternatives.into_iter().map(compile).collect()),
        },
        Node::Pattern(nodes) => joined(&glued(nodes.into_iter().map(compile).collect())),
    })
}

/// Factors out the parts that all alternatives begin or end with.
fn without_common(alternatives: &[Node]) -> Option<Node> {
    let patterns: Vec<&[Node]> = alternatives
        .iter()
        .map(|node| match node {
            Node::Pattern(nodes) => Some(nodes.as_slice()),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let (left, right) = common(&patterns);
    if left == 0 && right == 0 {
        return None;
    }
    let mut rests: Vec<Node> = Vec::new();
    for parts in &patterns {
        let rest = parts.get(left..parts.len().checked_sub(right)?)?;
        let rest = if rest.is_empty() { Node::Leaf(Matcher::Nothing) } else { Node::Pattern(rest.to_vec()) };
        if !rests.contains(&rest) {
            rests.push(rest);
        }
    }
    let first = patterns.first()?;
    let mut result = Vec::new();
    if left > 0 {
        result.push(Node::Pattern(first[..left].to_vec()));
    }
    match rests.as_slice() {
        [Node::Leaf(Matcher::Nothing)] | [] => {}
        [only] => result.push(only.clone()),
        _ => result.push(Node::AnyOf(rests)),
    }
    if right > 0 {
        result.push(Node::Pattern(first[first.len() - right..].to_vec()));
    }
    Some(Node::Pattern(result))
}

/// Counts the leading and the trailing parts that all patterns share.
fn common(patterns: &[&[Node]]) -> (usize, usize) {
    let Some(shortest) = patterns.iter().min_by_key(|parts| parts.len()).filter(|_| patterns.len() > 1) else {
        return (0, 0);
    };
    let length = shortest.len();
    let (mut left, mut right) = (0, 0);
    let (mut left_ends, mut right_ends) = (false, false);
    for i in 0..length {
        let j = length - 1 - i;
        if left + right >= length || left_ends && right_ends {
            break;
        }
        for parts in patterns.iter().filter(|parts| !std::ptr::eq(**parts, *shortest)) {
            left_ends = left_ends || shortest[i] != parts[i];
            right_ends = right_ends || !left_ends && j <= i;
            right_ends = right_ends || shortest[j] != parts[j + parts.len() - length];
            if left_ends && right_ends {
                break;
            }
        }
        left += usize::from(!left_ends);
        right += usize::from(!right_ends);
    }
    (left, right)
}

/// Joins adjacent matchers where possible, the longest run first.
fn glued(mut matchers: Vec<Matcher>) -> Vec<Matcher> {
    loop {
        let runs = runs(&matchers);
        let mut best: Option<(usize, &Run)> = None;
        for (start, run) in runs.iter().enumerate().filter(|(_, run)| run.count > 1) {
            let longer = |best: &Run| best.length.zip(run.length).is_some_and(|(old, new)| new > old);
            if best.is_none_or(|(_, best)| best.count < run.count || longer(best)) {
                best = Some((start, run));
            }
        }
        let Some((start, run)) = best else { return matchers };
        let end = start + run.count;
        let matcher = match run.length {
            Some(length) => Matcher::Row(length, matchers[start..end].to_vec()),
            None => every(&matchers[start..end]),
        };
        matchers.splice(start..end, [matcher]);
    }
}

/// A run of adjacent matchers that can be joined.
struct Run {
    count: usize,
    /// Their total number of characters, if known: then they form a row, else a sieve.
    length: Option<usize>,
}

/// Finds the longest run that starts at each matcher.
fn runs(matchers: &[Matcher]) -> Vec<Run> {
    let mut runs = Vec::with_capacity(matchers.len());
    let (mut sieves, mut fixed, mut length) = (0, 0, 0);
    for (i, matcher) in matchers.iter().enumerate().rev() {
        sieves = match sieve(matcher) {
            None => 0,
            kind if matchers.get(i + 1).and_then(sieve) == kind => sieves + 1,
            Some(_) => 1,
        };
        (fixed, length) = matcher.length().map_or((0, 0), |own| (fixed + 1, length + own));
        let is_row = fixed > sieves;
        runs.push(Run { count: sieves.max(fixed), length: is_row.then_some(length) });
    }
    runs.reverse();
    runs
}

/// Returns the characters that a matcher rejects, if it accepts all others. Sieves that reject the same characters differ only in the number they
/// match.
fn sieve(matcher: &Matcher) -> Option<&[char]> {
    match matcher {
        Matcher::Super => Some(&[]),
        Matcher::Any | Matcher::Single => Some(&[SEPARATOR]),
        Matcher::List { chars, negated: true } => Some(chars),
        _ => None,
    }
}

/// Joins sieves that reject the same characters.
fn every(matchers: &[Matcher]) -> Matcher {
    if matchers.contains(&Matcher::Super) {
        return Matcher::Super;
    }
    let least = matchers.iter().filter(|matcher| **matcher != Matcher::Any).count();
    if least == 0 {
        return Matcher::Any;
    }
    let mut all = vec![Matcher::Min(least)];
    if least == matchers.len() {
        all.push(Matcher::Max(least));
    }
    let needle = matchers.first().and_then(sieve).unwrap_or_default().iter().collect();
    all.push(Matcher::Contains { needle, negated: true });
    Matcher::Every(all)
}

/// Builds a tree around the matcher of the greatest known length, the last one if several have it. Adjacent matchers that can be joined already are.
fn joined(matchers: &[Matcher]) -> Matcher {
    match matchers {
        [] => return Matcher::Nothing,
        [only] => return only.clone(),
        _ => {}
    }
    let lengths = matchers.iter().enumerate().filter_map(|(i, matcher)| matcher.length().map(|length| (length, i)));
    let at = lengths.max().map_or(0, |(_, i)| i);
    let side = |matchers: &[Matcher]| (!matchers.is_empty()).then(|| joined(matchers));
    Matcher::Tree(Box::new(Tree::new(matchers[at].clone(), side(&matchers[..at]), side(&matchers[at + 1..]))))
}

/// Replaces a matcher by a simpler equivalent, if there is one.
fn optimized(matcher: Matcher) -> Matcher {
    match matcher {
        Matcher::AnyOf(mut alternatives) if alternatives.len() == 1 => alternatives.remove(0),
        Matcher::List { chars, negated: false } if chars.len() == 1 => Matcher::Text(chars.into_iter().collect()),
        Matcher::Tree(mut tree) => {
            tree.left = tree.left.map(optimized);
            tree.right = tree.right.map(optimized);
            shorter(&tree).unwrap_or(Matcher::Tree(tree))
        }
        matcher => matcher,
    }
}

fn shorter(tree: &Tree) -> Option<Matcher> {
    let Matcher::Text(text) = &tree.value else { return None };
    let text = text.clone();
    Some(match (&tree.left, &tree.right) {
        (None, None) => Matcher::Text(text),
        (Some(Matcher::Super), Some(Matcher::Super)) => Matcher::Contains { needle: text, negated: false },
        (Some(Matcher::Super), None) => Matcher::Suffix(text),
        (None, Some(Matcher::Super)) => Matcher::Prefix(text),
        (None, Some(Matcher::Suffix(suffix))) => Matcher::PrefixSuffix(text, suffix.clone()),
        (Some(Matcher::Prefix(prefix)), None) => Matcher::PrefixSuffix(prefix.clone(), text),
        (Some(Matcher::Any), None) => Matcher::SuffixAny(text),
        (None, Some(Matcher::Any)) => Matcher::PrefixAny(text),
        _ => return None,
    })
}
