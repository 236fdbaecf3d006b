// The list of settings: what is in force, who chose it, and changing it.
'use strict';

const settings = (() => {
    const groups = document.getElementById('setting-groups');
    const pending_box = document.getElementById('pending');
    const row_switch = document.getElementById('row-switch');
    // An app that holds this page can start the engine again itself; docs/flash.md says how it offers that.
    const host = window.sluice_host && window.sluice_host.restart ? window.sluice_host : null;
    const pending = new Map(); // by name: values for the next start
    let changed = async () => {}; // posts a change
    let rows = []; // what was made, one for each setting
    let shown = null; // the state

    const set_by = {
        user: 'given',
        plan: 'chosen by the plan',
        run: 'found out by the run',
        default: 'the default',
        panel: 'set here',
    };

    function value_text({ type, unit }, value) {
        if (value === null) {
            return 'not given';
        }
        if (type === 'switch') {
            return value ? 'on' : 'off';
        }
        const text = typeof value === 'number' ? value.toLocaleString('en', { maximumFractionDigits: 3 }) : value;
        return typeof value === 'number' && unit ? `${text}\u00a0${unit}` : text;
    }

    /** The command line for the next start: as the server was started, with what is pending in the place of the old. */
    function command_line() {
        const words = shown.arguments.slice();
        for (const [name, value] of pending) {
            const { flags, off_flag, type } = find(name);
            const is_switch = type === 'switch';
            const is_it = (word) => [...flags, off_flag].includes(word.split('=')[0]);
            for (let at; (at = words.findIndex(is_it)) >= 0; ) {
                words.splice(at, is_switch || words[at].includes('=') ? 1 : 2);
            }
            const flag = flags[flags.length - 1];
            words.push(...(is_switch ? [value ? flag : off_flag] : [flag, String(value)]));
        }
        return words.map((word) => (/^[\w./:=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
    }

    const find = (name) => shown.model.settings.find((setting) => setting.name === name);

    function show_pending() {
        pending_box.hidden = pending.size === 0;
        if (pending_box.hidden) {
            pending_box.replaceChildren();
            return;
        }
        const line = command_line();
        const button = element('button', { type: 'button' }, host ? 'Start the engine again' : 'Copy');
        button.addEventListener('click', () =>
            host
                ? host.restart(JSON.stringify(Object.fromEntries(pending)))
                : navigator.clipboard.writeText(line).then(() => button.replaceChildren('Copied')),
        );
        const forget = element('button', { type: 'button' }, 'Forget it');
        forget.addEventListener('click', () => {
            pending.clear();
            show(shown, shown.model);
        });
        const count = format.count(pending.size, 'change');
        pending_box.replaceChildren(
            paragraph(`${count} for the next start of the server${host ? '.' : ':'}`),
            ...(host ? [] : [element('pre', {}, line)]),
            element('p', {}, button, ' ', forget),
        );
    }

    /** The control of a setting; `take(value)` is called when another one is chosen. */
    function control(setting, take) {
        const id = `setting-${setting.name}`;
        const named = { id, 'aria-describedby': `${id}-about` };
        if (setting.type === 'switch') {
            const box = element('input', { type: 'checkbox', role: 'switch', ...named });
            box.addEventListener('change', () => take(box.checked));
            return { node: box, put: (value) => (box.checked = Boolean(value)) };
        }
        if (setting.type === 'choice') {
            const select = element('select', named, ...setting.choices.map((each) => element('option', {}, each)));
            select.addEventListener('change', () => take(select.value));
            return { node: select, put: (value) => (select.value = value) };
        }
        const input = element('input', {
            type: 'text',
            inputmode: setting.words.length ? 'text' : 'decimal',
            autocomplete: 'off',
            spellcheck: 'false',
            ...named,
        });
        const button = element('button', { hidden: '' }, setting.apply === 'now' ? 'Set' : 'Note');
        const form = element('form', {}, input, button);
        let in_force = '';
        input.addEventListener('input', () => (button.hidden = input.value.trim() === in_force));
        form.addEventListener('submit', (event) => {
            event.preventDefault();
            const text = input.value.trim();
            button.hidden = true;
            take(setting.type === 'number' && !setting.words.includes(text) ? Number(text) : text);
        });
        return {
            node: form,
            put: (value) => {
                const text = value === null ? '' : String(value);
                if (document.activeElement !== input && button.hidden) {
                    input.value = text;
                }
                in_force = text;
            },
        };
    }

    /** Why the text that somebody typed cannot be meant; null if it can. */
    function fault(setting, value) {
        if (setting.type !== 'number' || setting.words.includes(value)) {
            return null;
        }
        if (Number.isNaN(value)) {
            return `a number is wanted${setting.words.length ? `, or ${format.list(setting.words)}` : ''}`;
        }
        const low = setting.min !== null && value < setting.min;
        const high = setting.max !== null && value > setting.max;
        return low ? `at least ${setting.min}` : high ? `at most ${setting.max}` : null;
    }

    function make_row(setting) {
        const said = element('p', { class: 'said', role: 'status' });
        const value = element('span', { class: 'value' });
        const why = element('small', {});
        const name = setting.name;
        const box = control(setting, async (wanted) => {
            const wrong = fault(setting, wanted);
            said.textContent = wrong ? `${setting.flags[0]}: ${wrong}.` : '';
            if (wrong) {
                return;
            }
            if (setting.apply === 'restart') {
                if (wanted === find(name).value) {
                    pending.delete(name);
                } else {
                    pending.set(name, wanted);
                }
                show(shown, shown.model);
                return;
            }
            try {
                await changed(name, wanted);
                said.textContent = 'It is set.';
            } catch (error) {
                said.textContent = `Not set: ${error.message}`;
                box.put(find(name).value);
            }
        });
        const label = element('label', { for: `setting-${name}`, class: 'code' }, setting.flags[setting.flags.length - 1]);
        const badges = [
            element('span', { class: 'badge complete' }, setting.apply === 'now' ? 'changes at once' : 'needs a restart'),
            ...(setting.lossy ? [element('span', { class: 'badge' }, 'lossy')] : []),
        ];
        const about = element('p', { id: `setting-${name}-about`, class: 'about' }, setting.about);
        const node = element(
            'div',
            { class: 'setting', 'data-name': name },
            element('div', { class: 'what' }, label, ' ', ...badges, about),
            element('div', { class: 'now' }, value, why),
            element('div', { class: 'change' }, box.node, said),
        );
        const update = (now) => {
            const waits = pending.has(name);
            value.textContent = value_text(now, now.value);
            why.textContent = `${set_by[now.set_by]}${now.reason ? `: ${now.reason}` : ''}`;
            node.classList.toggle('waits', waits);
            box.put(waits ? pending.get(name) : now.value);
        };
        return { node, update };
    }

    function build(list) {
        const by_group = new Map();
        rows = list.map((setting) => {
            const row = make_row(setting);
            by_group.set(setting.group, [...(by_group.get(setting.group) || []), { setting, row }]);
            return row;
        });
        groups.replaceChildren();
        for (const [title, members] of by_group) {
            const is_lossy = members.every(({ setting }) => setting.lossy);
            const details = element(
                'details',
                is_lossy ? {} : { open: '' },
                element('summary', {}, element('h3', {}, title)),
                ...(is_lossy ? [paragraph('These make the text another than the model\u2019s.', 'warnings')] : []),
                ...members.map(({ row }) => row.node),
            );
            groups.append(details);
        }
    }

    /** The switch of row streaming has its place beside the dense weights, too; it is the same setting. */
    function show_row_switch() {
        const setting = find('row-stream');
        row_switch.hidden = !setting;
        if (!setting) {
            return;
        }
        let box = row_switch.querySelector('input');
        if (!box) {
            box = element('input', { type: 'checkbox', role: 'switch', id: 'row-stream-switch' });
            box.addEventListener('change', () => document.getElementById('setting-row-stream').click());
            const label = element('label', { for: 'row-stream-switch' }, box, ' Stream row-gathered tables');
            row_switch.replaceChildren(label, element('p', { class: 'about' }));
        }
        const waits = pending.has('row-stream');
        box.checked = waits ? pending.get('row-stream') : setting.value;
        row_switch.querySelector('p').textContent = waits
            ? 'From the next start on; the command is under Settings.'
            : 'A change needs a restart.';
    }

    function show(state, model) {
        const names = (list) => list.map(({ name }) => name).join();
        const same = shown && names(shown.model.settings) === names(model.settings);
        shown = { ...state, model };
        if (!same) {
            build(model.settings);
        }
        model.settings.forEach((setting, i) => rows[i].update(setting));
        show_row_switch();
        show_pending();
    }

    return { show, on_change: (post) => (changed = post) };
})();
