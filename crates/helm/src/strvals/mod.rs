//! To come: strvals.
