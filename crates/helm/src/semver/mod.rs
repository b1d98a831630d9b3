//! To come: semver.
