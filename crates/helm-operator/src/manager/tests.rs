//! Tests of the operator's controllers.

use controller::report::chain;

use super::*;

#[test]
fn a_chart_that_cannot_be_loaded_stops_the_start_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    std::fs::write(&file, "- {group: g, version: v1, kind: Store, chart: no/such/chart}\n").unwrap();
    let manager = Operator::new().watches(&file).unwrap().manager(Config::default());
    let error = manager.of_controllers().map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot serve Store with chart \"no/such/chart\" (line 1 of the watches file)");
    assert!(chain(&error).contains("no/such/chart"), "{}", chain(&error));
}

#[test]
fn code_around_a_chart_that_no_watch_names_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    std::fs::write(&file, "- {group: g, version: v1, kind: Store, chart: no/such/chart}\n").unwrap();
    let refused = |kind: &str| {
        let operator = Operator::new().watches(&file).unwrap().chart(kind, |chart| chart);
        operator.controllers().map(|_| ()).unwrap_err().to_string()
    };
    let missing = "the program adds code around the chart of \"Shop\", but watches.yaml has no such kind: \
                   add an entry, or name another kind";
    assert_eq!(refused("Shop"), missing);
    for kind in ["Store", "Store.g"] {
        assert_eq!(refused(kind), "cannot serve Store with chart \"no/such/chart\" (line 1 of the watches file)");
    }
}
