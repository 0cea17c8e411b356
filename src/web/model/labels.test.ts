/** Proves the labels of a fleet. */
import { expect, it } from 'vitest';
import type { Device } from '../../api/device.ts';
import { countLabels, labelFault, splitLabels } from './labels.ts';

it('are counted by device, and listed by name', () => {
  const devices = [{ labels: ['web', 'app'] }, { labels: ['app'] }, {}] as unknown as readonly Device[];
  expect([...countLabels(devices)]).toEqual([
    ['app', 2],
    ['web', 1],
  ]);
});

it('are split where people put commas, spaces or semicolons, and the first wrong one is told', () => {
  expect(splitLabels(['app, prod', 'app;db'])).toEqual(['app', 'prod', 'db']);
  expect(labelFault(['app', 'prod/eu-1'])).toBeUndefined();
  expect(labelFault(['app', 'DB'])).toBe('“DB” has upper-case letters; labels are lower case.');
});
