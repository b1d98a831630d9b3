//! Tests of the metrics of charts as Prometheus scrapes them.

use controller::metrics::Format;

use super::*;

fn check(metrics: &Metrics, line: &str) {
    let text = metrics.encode(Format::Classic);
    assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
}

#[test]
fn renders_are_shown_before_the_first_one() {
    let metrics = Metrics::default();
    ChartMetrics::new(&metrics);
    for outcome in ["rendered", "failed", "limit", "postponed"] {
        check(&metrics, &format!("helm_operator_renders_total{{outcome=\"{outcome}\"}} 0"));
    }
}

#[test]
fn resources_are_counted_by_readiness_for_as_long_as_their_controller_runs() {
    struct Three;
    impl Census for Three {
        fn count(&self) -> Count {
            let ready = [(("True".into(), "Ready".into()), 2), (("False".into(), "UpgradeError".into()), 1)].into();
            let left_alone = [("suspend", 1)].into();
            let mut count = Count { ready, revisions: 7, left_alone, pinned: 2, ..Count::default() };
            count.add_chart("shop-0.1.0");
            count
        }
    }
    let metrics = Metrics::default();
    let census: Arc<dyn Census> = Arc::new(Three);
    ChartMetrics::new(&metrics).resources(&"a-controller".into(), Arc::downgrade(&census));
    check(&metrics, r#"helm_operator_resources{controller="a-controller",ready="True",reason="Ready"} 2"#);
    check(&metrics, r#"helm_operator_resources{controller="a-controller",ready="False",reason="UpgradeError"} 1"#);
    check(&metrics, r#"helm_operator_releases{chart="shop",controller="a-controller",version="0.1.0"} 1"#);
    check(&metrics, r#"helm_operator_revisions{controller="a-controller"} 7"#);
    check(&metrics, r#"helm_operator_suspended_resources{annotation="suspend",controller="a-controller"} 1"#);
    check(&metrics, r#"helm_operator_pinned_resources{controller="a-controller"} 2"#);
    drop(census);
    assert!(!metrics.encode(Format::Classic).contains("a-controller"));
}
