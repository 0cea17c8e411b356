/** Owns the nftables text on a page. The compiler is loaded when somebody wants to see what it makes. */
import { useEffect, useState, type ReactNode } from 'react';
import type { EffectivePolicy } from '../../policy/effective.ts';

export function Compiled({
  policy,
  interfaceName,
}: {
  readonly policy: EffectivePolicy;
  readonly interfaceName?: string | undefined;
}): ReactNode {
  const [text, setText] = useState<string>();
  useEffect(() => {
    let current = true;
    void import('../model/ruleset.ts').then(({ compilePolicy }) => {
      if (current) setText(compilePolicy(policy, interfaceName));
    });
    return () => {
      current = false;
    };
  }, [policy, interfaceName]);
  return (
    <pre className="code code-tall" tabIndex={0} aria-label="nftables text">
      {text ?? 'Compiling…'}
    </pre>
  );
}
