//! Times as people write them: RFC 3339, in UTC.

const DAY_MS: i64 = 24 * 3_600_000;

/// A time in milliseconds since 1970 as `2013-01-01T10:00:00Z`; what is below a second is cut off.
///
/// Days are counted from 1 March of the year 0, so that a leap day is the last of its year, and in eras of 400 years, after
/// which the calendar repeats itself.
pub(crate) fn rfc3339(ms: i64) -> String {
    const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;
    const ERA_DAYS: i64 = 146_097;
    let (days, second) = (ms.div_euclid(DAY_MS) + DAYS_FROM_MARCH_0_TO_1970, ms.rem_euclid(DAY_MS) / 1_000);
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, months of 31 and 30 days take turns so that five of them have 153.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_right_where_it_is_odd() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_357_034_400, "2013-01-01T10:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000), text);
            assert_eq!(rfc3339(seconds * 1_000 + 999), text);
        }
    }
}
