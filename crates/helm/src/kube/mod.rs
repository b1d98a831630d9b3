//! To come: kube.
