/** Proves what reaches a terminal: widths, tables, and nothing that speaks to it. */
import { describe, expect, it } from 'vitest';
import { idColumn, renderFields, renderTable, sortByName, type Layout } from './table.ts';
import { widthOf } from './text.ts';
import { isPrintable, printable, printableJson } from '../../policy/names/printable.ts';
import { createScreen } from './screen.ts';
import { readYaml } from './read-yaml.ts';
import { writeYaml } from './write-yaml.ts';

const secret = (): string => 'secret';
const { paint: plain } = createScreen({ colour: false, secret });
const layout: Layout = { paint: plain, wide: false, headers: true, width: undefined };

describe('text for a terminal', () => {
  it('is as wide as its characters are', () => {
    expect(['abc', 'ü', 'e\u0301', '日本', '🦔', ''].map(widthOf)).toEqual([3, 1, 1, 4, 2, 0]);
  });

  it('holds nothing that speaks to the terminal or turns the line around', () => {
    expect(printable('a\u001b[31mb\u009bc\u202ed\te')).toBe('a\\u001b[31mb\\u009bc\\u202ed\\u0009e');
    expect(printable('two\nlines')).toBe('two lines');
  });

  it.each(['\u200b', '\u200d', '\u2060', '\u2066', '\u061c', '\u00ad', '\ufeff', '\u2028', '\u3164', '\u{e0041}'])(
    'shows the invisible %j',
    (character) => {
      expect(isPrintable(character)).toBe(false);
      expect(printable(`a${character}b`)).toMatch(/^a\\u(?:[0-9a-f]{4}|\{[0-9a-f]+\})b$/);
    },
  );

  it('is coloured only where that was asked for, and never by what a name holds', () => {
    const { paint, render } = createScreen({ colour: true, secret });
    expect(render(paint('bold', 'x\u001b[31my\u00011;z'))).toBe('\u001b[1mx\\u001b[31my\\u00011;z\u001b[22m');
    expect(plain('bold', 'x')).toBe('x');
  });

  it('as JSON and YAML means the same', () => {
    const data = {
      name: 'a\u202eb\u{e0041}c\u0085',
      lines: 'one\ntwo\n',
      both: 'one\n\u200btwo',
      ['k\u200be']: ['plain'],
    };
    const json = printableJson(JSON.stringify(data, undefined, 2));
    expect([JSON.parse(json), isPrintable(json.replaceAll('\n', ''))]).toEqual([data, true]);
    const yaml = writeYaml(data);
    expect([readYaml(yaml), isPrintable(yaml.replaceAll('\n', ''))]).toEqual([data, true]);
    expect(yaml).toContain('lines: |\n  one\n  two\n');
  });
});

describe('a table', () => {
  it('lines its columns up, numbers to the right, without blanks at the end', () => {
    const rows = [
      { name: '日本', count: 5, note: '' },
      { name: 'web', count: 123, note: 'evil\u001b[2J' },
    ];
    const text = renderTable(
      [
        { head: 'NAME', text: ({ name }) => name },
        { head: 'COUNT', text: ({ count }) => String(count), align: 'right' },
        { head: 'NOTE', text: ({ note }) => note },
      ],
      rows,
      layout,
    );
    expect(text).toBe('NAME  COUNT  NOTE\n日本      5\nweb     123  evil\\u001b[2J\n');
  });

  const devices = [
    { id: '019a8f00-0000-7000-8000-0000aaaa1111', name: 'web-10', note: 'a long sentence about this device' },
    { id: '019a8f00-0000-7000-8000-0000bbbb2222', name: 'web-2', note: '日本日本日本日本日本日本日本' },
  ];
  const shown = (look: Partial<Layout>): readonly string[] => {
    const full = { ...layout, ...look };
    return renderTable(
      [
        { head: 'NAME', text: ({ name }) => name },
        idColumn<(typeof devices)[number]>('ID', ({ id }) => id, full),
        { head: 'NOTE', text: ({ note }) => note },
        { head: 'MORE', text: () => 'more', wide: true },
      ],
      sortByName(devices, ({ name }) => name),
      full,
    ).split('\n');
  };

  it('fits the terminal: the widest columns are cut and say so, ids are not', () => {
    const lines = shown({ width: 30 });
    expect(lines).toEqual([
      'NAME    ID        NOTE',
      'web-2   bbbb2222  日本日本日…',
      'web-10  aaaa1111  a long sent…',
      '',
    ]);
    expect(lines.map(widthOf).every((width) => width <= 30)).toBe(true);
    expect(shown({ width: 200 })[2]).toContain('a long sentence about this device');
  });

  it('shows ids by their ends, which differ, sorted as people count; a wide one shows everything and cuts nothing', () => {
    expect(shown({}).map((line) => line.slice(0, 16))).toEqual([
      'NAME    ID      ',
      'web-2   bbbb2222',
      'web-10  aaaa1111',
      '',
    ]);
    expect(shown({ wide: true, width: 30 })[2]).toContain(`${devices[0]?.id}  a long sentence about this device`);
    expect(shown({ wide: true })[0]).toMatch(/MORE$/);
  });

  it('has no heads where none are wanted', () => {
    expect(shown({ headers: false })[0]).toMatch(/^web-2 /);
  });

  it('of fields puts further lines below the first', () => {
    expect(
      renderFields(
        [
          ['a', 'x'],
          ['long', ['one', 'two']],
          ['none', []],
        ],
        layout,
      ),
    ).toBe('a     x\nlong  one\n      two\nnone\n');
  });
});
