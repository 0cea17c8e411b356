/** Proves that colours tell the story of the page: green says "in force" and nothing else, and more access is never green. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const web = fileURLToPath(new URL('../src/web/', import.meta.url));
const read = (end: string): readonly (readonly [path: string, text: string])[] =>
  readdirSync(web, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(end))
    .map((path) => [path, readFileSync(`${web}${path}`, 'utf8')] as const);

/** The rules of the style sheets, each with its selector. */
const rules = read('.css').flatMap(([, text]) =>
  [...text.replaceAll(/\/\*.*?\*\//gs, '').matchAll(/([^{}]+)\{([^{}]*)\}/g)].map(
    ([, selector = '', body = '']) => [selector.trim().replaceAll(/\s+/g, ' '), body] as const,
  ),
);

test('green is for what is in force', () => {
  const green = rules.flatMap(([selector, body]) => (/: var\(--good/.test(body) ? [selector] : []));
  expect(green.toSorted()).toEqual(
    [
      // The fleet: how many devices enforce the policy, now and over time, and in a rollout.
      '.figure-good',
      '.plot-good',
      '.plot-line, .spark-line',
      '.rollout::-moz-progress-bar',
      '.rollout::-webkit-progress-value',
      // Of a device: "in force".
      '.tag-good',
    ].toSorted(),
  );
  const pages = read('.tsx').flatMap(([path, text]) =>
    /'good'|"good"|figure-good|note-good/.test(text) ? [path] : [],
  );
  expect(pages.toSorted()).toEqual([
    'components/page.tsx',
    'device/device-state.tsx',
    'overview/figures.tsx',
    'pages/groups.tsx',
  ]);
});

test('more access is amber, less is neutral', () => {
  const coloursOf = (name: string): string => rules.find(([selector]) => selector === name)?.[1] ?? '';
  expect(coloursOf('.change-in')).toContain('var(--warn-soft)');
  expect(coloursOf('.change-out')).toContain('var(--plain-soft)');
});
