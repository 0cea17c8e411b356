/** Owns a choice among a few options side by side. It uses the browser's own radio buttons and measures nothing. */
import { useId, type ReactNode } from 'react';

interface Choice<V> {
  readonly value: V;
  readonly label: string;
  readonly disabled?: boolean;
}

export function Segmented<V extends string>({
  'aria-label': name,
  data,
  value,
  onChange,
  look = '',
}: {
  readonly 'aria-label': string;
  readonly data: readonly Choice<V>[];
  readonly value: V;
  readonly onChange: (value: V) => void;
  /** Small beside a heading, or as wide as the form. */
  readonly look?: 'small' | 'wide' | '';
}): ReactNode {
  const group = useId();
  return (
    <div role="radiogroup" aria-label={name} className={`segmented ${look && `segmented-${look}`}`}>
      {data.map((choice) => (
        <label key={choice.value} className="segment">
          <input
            type="radio"
            className="visually-hidden"
            name={group}
            value={choice.value}
            checked={choice.value === value}
            disabled={choice.disabled === true}
            onChange={() => onChange(choice.value)}
          />
          {choice.label}
        </label>
      ))}
    </div>
  );
}
