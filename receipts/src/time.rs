//! Seconds of UTC as `YYYY-MM-DDTHH:MM:SSZ`, years 0001 to 9999; a text has one form only.

/// A second of UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timestamp(i64);

const LAST: i64 = 253_402_300_799;

impl Timestamp {
    /// Seconds since 1970 UTC, held to the years 1970 to 9999.
    pub fn from_unix(seconds: i64) -> Self {
        Self(seconds.clamp(0, LAST))
    }

    /// Seconds since 1970 UTC.
    pub const fn unix(self) -> i64 {
        self.0
    }

    /// Reads the one form; `None` for anything else, such as a 30th of February.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let shape = b"dddd-dd-ddTdd:dd:ddZ";
        let fits = bytes.len() == shape.len()
            && bytes
                .iter()
                .zip(shape)
                .all(|(byte, want)| if *want == b'd' { byte.is_ascii_digit() } else { byte == want });
        if !fits {
            return None;
        }
        let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().ok();
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if hour > 23 || minute > 59 || second > 59 || year == 0 || !(1..=12).contains(&month) {
            return None;
        }
        let days = days_from_civil(year, month, day);
        (civil_from_days(days) == (year, month, day))
            .then_some(Self(days * 86_400 + hour * 3600 + minute * 60 + second))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(86_400));
        let second = self.0.rem_euclid(86_400);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, counting years from March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_back_as_itself() {
        for text in
            ["1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "2026-11-30T12:00:01Z", "9999-12-31T23:59:59Z"]
        {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_date_that_is_none_is_refused() {
        for text in [
            "2026-02-30T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00z",
            "2026-01-01T00:00:00+00:00",
            "",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
