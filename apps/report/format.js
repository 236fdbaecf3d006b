// Numbers for people. What was not measured is null, and reads "unmeasured"; 0 is a measured nought.
'use strict';

const format = (() => {
    const KIB = 1024;
    const MIB = 1024 * KIB;
    const GIB = 1024 * MIB;
    const unmeasured = 'unmeasured';

    /** Three significant digits or all of the integer part: 0.0123, 1.23, 12.3, 1,234. */
    function number(value) {
        if (value === null) {
            return unmeasured;
        }
        const size = Math.abs(value);
        const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
        return value.toLocaleString('en', { maximumFractionDigits: digits });
    }

    // Numbers and their units stay on one line: the space between them does not break.
    const space = '\u00a0';
    const with_unit = (unit) => (value) => (value === null ? unmeasured : `${number(value)}${space}${unit}`);

    /** The unit that suits a number of bytes: its name and its size. */
    function byte_unit(value) {
        return value >= 10 * GIB ? ['GiB', GIB] : value >= MIB ? ['MiB', MIB] : ['KiB', KIB];
    }

    function bytes(value) {
        if (value === null || value === 0) {
            return value === 0 ? '0' : unmeasured;
        }
        const [name, size] = byte_unit(value);
        return `${number(value / size)}${space}${name}`;
    }

    function percent(share) {
        return share === null
            ? unmeasured
            : `${(100 * share).toLocaleString('en', { maximumFractionDigits: 1 })}${space}%`;
    }

    function seconds(value) {
        if (value === null) {
            return unmeasured;
        }
        return value < 1
            ? `${number(value * 1000)}${space}ms`
            : value < 120
              ? `${number(value)}${space}s`
              : value < 7200
                ? `${number(value / 60)}${space}min`
                : `${number(value / 3600)}${space}h`;
    }

    /** "1 token", "1,234 tokens". */
    function count(value, what) {
        return `${value.toLocaleString('en')} ${what}${value === 1 ? '' : 's'}`;
    }

    /** "a", "a and b", "a, b and c". */
    function list(words) {
        return words.length < 2
            ? words.join('')
            : `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`;
    }

    return {
        MIB,
        unmeasured,
        number,
        byte_unit,
        bytes,
        percent,
        seconds,
        count,
        list,
        milliseconds: with_unit('ms'),
        rate: with_unit('tokens/s'),
    };
})();
