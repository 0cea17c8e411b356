/** Owns the bar above a long list: a search field, one button for all filters, and a chip for each filter in use. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Member } from '../../api/organization.ts';
import { deviceName } from '../state/organization.ts';
import { Button, CloseButton, Select, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { Fragment, useCallback, useEffect, useRef, useState, type ReactNode } from 'react';
import { FilterIcon, SearchIcon } from './icons.tsx';

export interface Choice {
  readonly value: string;
  readonly label: string;
}

export const groupChoices = (groups: readonly Pick<SecurityGroup, 'id' | 'group_name'>[]): Choice[] =>
  groups.map(({ id, group_name }) => ({ value: id, label: group_name }));
export const deviceChoices = (devices: readonly Device[]): Choice[] =>
  devices.map((device) => ({ value: device.id, label: deviceName(device) }));
export const memberChoices = (members: readonly Pick<Member, 'user_id' | 'username'>[]): Choice[] =>
  members.map(({ user_id, username }) => ({ value: user_id, label: username }));

/** Typing is quick; the URL need not follow every letter. */
const settleMs = 150;

function SearchField({
  label,
  placeholder,
  q,
  onChange,
}: {
  readonly label: string;
  readonly placeholder: string;
  readonly q: string | undefined;
  readonly onChange: (q: string | undefined) => void;
}): ReactNode {
  const [text, setText] = useState(q ?? '');
  const sent = useRef(q ?? '');
  // The URL changed elsewhere: by a link, the button that clears, or the way back.
  useEffect(() => {
    if ((q ?? '') === sent.current) return;
    sent.current = q ?? '';
    setText(q ?? '');
  }, [q]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      onChange(text === '' ? undefined : text);
    }, settleMs);
    return () => clearTimeout(timer);
  }, [text, onChange]);
  return (
    <TextInput
      className="search"
      aria-label={label}
      placeholder={placeholder}
      leftSection={<SearchIcon size={16} />}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      rightSection={
        text === '' ? null : <CloseButton size="sm" aria-label="Clear the search" onClick={() => setText('')} />
      }
    />
  );
}

/** One filter of a list: a column that the URL can narrow. */
export interface FilterColumn {
  /** Its name in the URL. */
  readonly name: string;
  readonly title: string;
  /** What the field says while nothing is chosen: `Every state`. */
  readonly placeholder?: string;
  readonly choices?: readonly Choice[];
  /** What the chip says instead of the words of the choice. */
  readonly words?: (value: string) => string;
  /** A field of its own instead of a list of choices; null: it is set elsewhere, and only taken away here. */
  readonly field?: ReactNode;
}

type Values = { readonly [name: string]: string | undefined };

function FilterPicker({
  column: { title, placeholder = '', choices = [] },
  value,
  onChange,
}: {
  readonly column: FilterColumn;
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}): ReactNode {
  // A saved view may name something that is gone: the field says so instead of showing nothing.
  const isKnown = value === undefined || choices.some((choice) => choice.value === value);
  return (
    <Select
      aria-label={`Filter by ${title.toLowerCase()}`}
      placeholder={placeholder}
      clearable
      searchable
      data={isKnown ? [...choices] : [...choices, { value, label: `${value} (none)` }]}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      clearButtonProps={{ 'aria-label': placeholder }}
      comboboxProps={{ width: 'max-content', position: 'bottom-start' }}
      maxDropdownHeight={320}
    />
  );
}

/** Sets filters in the URL; undefined takes one away, and others stay. */
export function useFilter(): (next: Values) => void {
  const navigate = useNavigate();
  return useCallback(
    (next) =>
      void navigate({
        to: '.',
        search: (before: object) =>
          Object.fromEntries(Object.entries({ ...before, ...next }).filter(([, value]) => value !== undefined)),
        replace: true,
      } as never),
    [navigate],
  );
}

export function FilterBar({
  label,
  search: { name, title, placeholder, text },
  columns,
  values,
  filter,
  clear,
  children,
}: {
  readonly label: string;
  /** The field for words, and the name of its filter in the URL. */
  readonly search: {
    readonly name: string;
    readonly title: string;
    readonly placeholder: string;
    /** What it shows instead of what the URL has. */
    readonly text?: string | undefined;
  };
  readonly columns: readonly FilterColumn[];
  readonly values: Values;
  readonly filter: (next: Values) => void;
  /** The button that takes all filters away: `Show every device`. */
  readonly clear: string;
  /** Further fields. */
  readonly children?: ReactNode;
}): ReactNode {
  const [open, setOpen] = useState(false);
  const onSearch = useCallback((words: string | undefined) => filter({ [name]: words }), [filter, name]);
  const used = columns.flatMap((column) => {
    const value = values[column.name];
    return value === undefined ? [] : [{ column, value }];
  });
  return (
    <div className="filters" role="search" aria-label={label}>
      <SearchField label={title} placeholder={placeholder} q={text ?? values[name]} onChange={onSearch} />
      <Button
        variant="default"
        leftSection={<FilterIcon size={16} />}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        Filter
      </Button>
      {open ? (
        <div className="filter-panel">
          {columns.map((column) =>
            column.field === undefined ? (
              <FilterPicker
                key={column.name}
                column={column}
                value={values[column.name]}
                onChange={(value) => filter({ [column.name]: value })}
              />
            ) : (
              <Fragment key={column.name}>{column.field}</Fragment>
            ),
          )}
          {children}
        </div>
      ) : null}
      {used.length === 0 && values[name] === undefined ? null : (
        <div className="tags filter-chips">
          {used.map(({ column, value }) => (
            <button
              key={column.name}
              type="button"
              className="tag tag-accent filter-chip"
              onClick={() => filter({ [column.name]: undefined })}
            >
              {column.title}:{' '}
              {column.words?.(value) ?? column.choices?.find((choice) => choice.value === value)?.label ?? value}
              <span aria-hidden="true">×</span>
              <span className="visually-hidden">, remove this filter</span>
            </button>
          ))}
          <Button
            variant="subtle"
            size="compact-sm"
            onClick={() =>
              filter(Object.fromEntries([name, ...columns.map((one) => one.name)].map((one) => [one, undefined])))
            }
          >
            {clear}
          </Button>
        </div>
      )}
    </div>
  );
}
