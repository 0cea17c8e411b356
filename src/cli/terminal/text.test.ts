/** Proves what reaches a terminal: widths, tables, and nothing that speaks to it. */
import { describe, expect, it } from 'vitest';
import { renderFields, renderTable } from './table.ts';
import { widthOf } from './text.ts';
import { isVisible, visible, visibleJson } from '../../node/visible.ts';
import { createScreen } from './screen.ts';
import { readYaml, writeYaml } from './yaml.ts';

const secret = (): string => 'secret';
const { paint: plain } = createScreen({ colour: false, secret });

describe('text for a terminal', () => {
  it('is as wide as its characters are', () => {
    expect(['abc', 'ü', 'e\u0301', '日本', '🦔', ''].map(widthOf)).toEqual([3, 1, 1, 4, 2, 0]);
  });

  it('holds nothing that speaks to the terminal or turns the line around', () => {
    expect(visible('a\u001b[31mb\u009bc\u202ed\te')).toBe('a\\u001b[31mb\\u009bc\\u202ed\\u0009e');
    expect(visible('two\nlines')).toBe('two lines');
  });

  it.each(['\u200b', '\u200d', '\u2060', '\u2066', '\u061c', '\u00ad', '\ufeff', '\u2028', '\u3164', '\u{e0041}'])(
    'shows the invisible %j',
    (character) => {
      expect(isVisible(character)).toBe(false);
      expect(visible(`a${character}b`)).toMatch(/^a\\u(?:[0-9a-f]{4}|\{[0-9a-f]+\})b$/);
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
    const json = visibleJson(JSON.stringify(data, undefined, 2));
    expect([JSON.parse(json), isVisible(json.replaceAll('\n', ''))]).toEqual([data, true]);
    const yaml = writeYaml(data);
    expect([readYaml(yaml), isVisible(yaml.replaceAll('\n', ''))]).toEqual([data, true]);
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
      plain,
    );
    expect(text).toBe('NAME  COUNT  NOTE\n日本      5\nweb     123  evil\\u001b[2J\n');
  });

  it('of fields puts further lines below the first', () => {
    expect(
      renderFields(
        [
          ['a', 'x'],
          ['long', ['one', 'two']],
          ['none', []],
        ],
        plain,
      ),
    ).toBe('a     x\nlong  one\n      two\nnone\n');
  });
});
