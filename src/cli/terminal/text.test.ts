/** Proves what reaches a terminal: widths, tables, and nothing that speaks to it. */
import { describe, expect, it } from 'vitest';
import { renderFields, renderTable } from './table.ts';
import { nearest, painter, safe, widthOf } from './text.ts';

const plain = painter(false);

describe('text for a terminal', () => {
  it('is as wide as its characters are', () => {
    expect(['abc', 'ü', 'e\u0301', '日本', '🦔', ''].map(widthOf)).toEqual([3, 1, 1, 4, 2, 0]);
  });

  it('holds nothing that speaks to the terminal or turns the line around', () => {
    expect(safe('a\u001b[31mb\u009bc\u202ed\te')).toBe('a\\u001b[31mb\\u009bc\\u202ed\\u0009e');
    expect(safe('two\nlines')).toBe('two lines');
  });

  it('is coloured only where that was asked for', () => {
    expect(painter(true)('bold', 'x')).toBe('\u001b[1mx\u001b[22m');
    expect(plain('bold', 'x')).toBe('x');
  });

  it('knows the nearest word, if one is near', () => {
    expect(nearest('edge-11', ['edge-1', 'web'])).toBe('edge-1');
    expect(nearest('ewb', ['web', 'db'])).toBe('web');
    expect(nearest('something', ['web', 'db'])).toBeUndefined();
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
