/** Proves the labels of a fleet. */
import { expect, it } from 'vitest';
import type { Device } from '../../api/device.ts';
import { countLabels, fittingLabels, labelFault, splitLabels } from './far-end.ts';

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

it('are all shown where they fit; else as many as leave room for the number of the rest, and never fewer than two', () => {
  const labels = ['eu/fra', 'monitoring', 'prod'];
  expect(fittingLabels(labels, 400)).toEqual(labels);
  expect(fittingLabels(labels, 200)).toEqual(labels.slice(0, 2));
  expect(fittingLabels([...labels, 'rack-7'], 250)).toEqual(labels);
  expect(fittingLabels(labels, 20)).toEqual(labels.slice(0, 2));
  expect(fittingLabels([], 20)).toEqual([]);
});
