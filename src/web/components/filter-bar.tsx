/** Owns the bar above a long list: a search field, one button for all filters, and a chip for each filter in use. */
import { Button, CloseButton, Select, TextInput } from '@mantine/core';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { FilterIcon, SearchIcon } from './icons.tsx';

export interface Choice {
  readonly value: string;
  readonly label: string;
}

/** Typing is quick; the URL need not follow every letter. */
const settleMs = 150;

export function SearchField({
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

export function FilterPicker({
  of,
  all,
  data,
  value,
  onChange,
}: {
  readonly of: string;
  /** The text while nothing is chosen. The clear button brings it back. */
  readonly all: string;
  readonly data: readonly Choice[];
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}): ReactNode {
  // A saved view may name something that is gone: the field says so instead of showing nothing.
  const known = value === undefined || data.some((choice) => choice.value === value);
  return (
    <Select
      aria-label={`Filter by ${of}`}
      placeholder={all}
      clearable
      searchable
      data={known ? [...data] : [...data, { value, label: `${value} (none)` }]}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      clearButtonProps={{ 'aria-label': all }}
      comboboxProps={{ width: 'max-content', position: 'bottom-start' }}
      maxDropdownHeight={320}
    />
  );
}

/** A filter that is in use. */
export interface FilterChip {
  readonly of: string;
  readonly value: string;
  readonly clear: () => void;
}

export function FilterBar({
  label,
  search,
  chips,
  clearAll,
  children,
}: {
  readonly label: string;
  readonly search: ReactNode;
  readonly chips: readonly FilterChip[];
  /** Absent where nothing is filtered. */
  readonly clearAll: { readonly label: string; readonly act: () => void } | undefined;
  /** The filters themselves. */
  readonly children: ReactNode;
}): ReactNode {
  const [open, setOpen] = useState(false);
  return (
    <div className="filters" role="search" aria-label={label}>
      {search}
      <Button
        variant="default"
        leftSection={<FilterIcon size={16} />}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        Filter
      </Button>
      {open ? <div className="filter-panel">{children}</div> : null}
      {clearAll === undefined ? null : (
        <div className="filter-chips">
          {chips.map(({ of, value, clear }) => (
            <button key={of} type="button" className="tag tag-accent filter-chip" onClick={clear}>
              {of}: {value}
              <span aria-hidden="true">×</span>
              <span className="visually-hidden">, remove this filter</span>
            </button>
          ))}
          <Button variant="subtle" size="compact-sm" onClick={clearAll.act}>
            {clearAll.label}
          </Button>
        </div>
      )}
    </div>
  );
}
