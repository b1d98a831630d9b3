use super::*;

fn utc(layout: &str, text: &str) -> Result<String, String> {
    let time = Time::parse(layout.as_bytes(), text.as_bytes()).map_err(|e| e.to_string())?;
    Ok(time.in_zone(Zone::Utc).to_string())
}

fn shown(layout: &str, seconds: i64, zone: &str) -> String {
    let time = Time::unix(seconds, 0).in_zone(Zone::load(zone).unwrap());
    String::from_utf8(time.format(layout.as_bytes())).unwrap()
}

#[test]
fn times_format_by_gos_layouts() {
    for (layout, seconds, expected) in [
        ("Jan 2, 2006 at 3:04pm (MST)", 1_234_567_890, "Feb 13, 2009 at 11:31pm (UTC)"),
        ("2006.01.02 .000 .999", 1_700_000_000, "2023.11.14 .000 "),
        ("06 1 2 3 4 5 PM pm", 1_700_000_000, "23 11 14 10 13 20 PM pm"),
        ("Monday _2 __2 002 Mon", 1_700_000_000, "Tuesday 14 318 318 Tue"),
        ("Z07:00 -0700 -07 -07:00:00", 0, "Z +0000 +00 +00:00:00"),
        ("Janus Monster 2006-01-02", 0, "Janus Monster 1970-01-01"),
        ("_2006", 0, "_1970"),
        ("2006 15", 500_000_000_000, "17814 00"),
        ("2006", i64::MAX, "292277026596"),
        ("2006", -70_000_000_000, "-0249"),
        ("", 0, ""),
    ] {
        assert_eq!(shown(layout, seconds, "UTC"), expected, "{layout}");
    }
}

#[test]
fn named_zones_have_offsets_and_abbreviations() {
    assert_eq!(shown("2006-01-02 15:04 MST", 1_700_000_000, "America/New_York"), "2023-11-14 17:13 EST");
    assert_eq!(shown("15:04 MST -07:00", 1_690_000_000, "Europe/Berlin"), "06:26 CEST +02:00");
    assert!(Zone::load("Not/AZone").is_none());
    assert!(Zone::load("europe/berlin").is_none());
}

#[test]
fn text_parses_by_gos_layouts() {
    for (layout, text, expected) in [
        ("15:04", "13:37", "0000-01-01 13:37:00 +0000 UTC"),
        ("2006-01-02 15:04:05 -0700", "2024-01-01 00:00:00 +0530", "2023-12-31 18:30:00 +0000 UTC"),
        ("2006-01-02T15:04:05Z07:00", "2024-02-29T10:11:12.5Z", "2024-02-29 10:11:12.5 +0000 UTC"),
        ("3:04PM", "12:30AM", "0000-01-01 00:30:00 +0000 UTC"),
        ("2006 002", "2024 060", "2024-02-29 00:00:00 +0000 UTC"),
        ("Jan _2 06", "feb  9 70", "1970-02-09 00:00:00 +0000 UTC"),
        ("5.0", "1.+", "0000-01-01 00:00:01 +0000 UTC"),
        ("15:04 MST", "10:00 UTC", "0000-01-01 10:00:00 +0000 UTC"),
    ] {
        assert_eq!(utc(layout, text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn parse_errors_have_gos_words() {
    for (layout, text, expected) in [
        ("2006-01-02", "2024-13-01", r#"parsing time "2024-13-01": month out of range"#),
        ("2006-01-02", "2024-02-29 extra", r#"parsing time "2024-02-29 extra": extra text: " extra""#),
        ("15:04", "25:00", r#"parsing time "25:00": hour out of range"#),
        (
            "2006-01-02",
            "not a date",
            r#"parsing time "not a date" as "2006-01-02": cannot parse "not a date" as "2006""#,
        ),
        ("2006-01-02", "2024/01", r#"parsing time "2024/01" as "2006-01-02": cannot parse "/01" as "-""#),
        ("2006-01-02", "2023-02-29", r#"parsing time "2023-02-29": day out of range"#),
        ("-0700", "+9999", r#"parsing time "+9999": time zone offset minute out of range"#),
        ("é", "x", r#"parsing time "x" as "\xc3\xa9": cannot parse "x" as "\xc3\xa9""#),
    ] {
        assert_eq!(utc(layout, text).unwrap_err(), expected);
    }
}

#[test]
fn durations_parse_and_print() {
    for (text, expected) in [
        ("1h1m1s1ms1us1ns", "1h1m1.001001001s"),
        ("1.h", "1h0m0s"),
        ("-45m", "-45m0s"),
        (".5s", "500ms"),
        ("3µs", "3µs"),
        ("0", "0s"),
        ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(Duration::parse(text.as_bytes()).unwrap().to_string(), expected, "{text}");
    }
    for (text, expected) in [
        ("", r#"time: invalid duration """#),
        ("1d", r#"time: unknown unit "d" in duration "1d""#),
        ("5", r#"time: missing unit in duration "5""#),
        ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
        ("µs", r#"time: invalid duration "\xc2\xb5s""#),
    ] {
        assert_eq!(Duration::parse(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn durations_round_half_away_from_zero_and_truncate_towards_it() {
    let parse = |text: &str| Duration::parse(text.as_bytes()).unwrap();
    for (text, multiple, rounded, truncated) in [
        ("90m", "1h", "2h0m0s", "1h0m0s"),
        ("-95m", "1h", "-2h0m0s", "-1h0m0s"),
        ("1h", "-1m", "1h0m0s", "1h0m0s"),
        ("1ms", "1s", "0s", "0s"),
    ] {
        assert_eq!(parse(text).round(parse(multiple)).to_string(), rounded, "{text}");
        assert_eq!(parse(text).truncate(parse(multiple)).to_string(), truncated, "{text}");
    }
}

#[test]
fn the_calendar_agrees_with_itself_over_many_years() {
    for days in (-1_000_000..1_000_000).step_by(997) {
        let date = Date::from_days(days);
        assert_eq!(date.days(), days, "{date:?}");
    }
}

#[test]
fn months_overflow_into_the_next() {
    let time = Time::parse(b"2006-01-02", b"2024-01-31").unwrap();
    assert_eq!(time.add_date(0, 1, 0).format(b"2006-01-02"), b"2024-03-02");
}
