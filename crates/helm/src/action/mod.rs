//! To come: action.
