//! The names that Kubernetes gives to objects and namespaces. Counterpart: apimachinery's `util/validation`.

/// Returns whether the text is a DNS label, as namespaces are: at most 63 lower-case letters, digits and hyphens, of
/// which the first and the last are not hyphens.
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Returns whether the text is a DNS subdomain, as most names of objects are: at most 253 bytes, in parts between dots
/// that are like labels. As in Kubernetes, only the whole has a maximum length.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_part_of_a_subdomain() {
        for label in ["a", "0", "a-b", &"x".repeat(63)] {
            assert!(is_label(label) && is_subdomain(label), "{label}");
        }
        for neither in ["", "-a", "a-", "A", "a_b", "é", "a..b", ".a", "a.", "a.-b"] {
            assert!(!is_label(neither) && !is_subdomain(neither), "{neither}");
        }
        assert!(is_subdomain("a.b-c.d") && !is_label("a.b-c.d"));
    }

    #[test]
    fn only_a_label_alone_is_limited_to_63_bytes() {
        let long = "x".repeat(64);
        assert!(!is_label(&long) && is_subdomain(&long));
        assert!(is_subdomain(&"x".repeat(253)) && !is_subdomain(&"x".repeat(254)));
    }
}
