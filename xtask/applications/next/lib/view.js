// The one view of all pages.
import Head from 'next/head';

export default function View({ title, who, lines, flashes, target, token }) {
  return (
    <>
      <Head><title>{title}</title><link rel="stylesheet" href="/static/app.css" /></Head>
      <h1>{title}</h1>
      {flashes.map((flash) => <p key={flash} className="flash">{flash}</p>)}
      <p>{`Hello ${who}`}</p>
      {lines.map((line, at) => <li key={at}>{line}</li>)}
      {target && (
        <form method="post" action={target}>
          <input type="hidden" name="_csrf" defaultValue={token} /><input name="item" />
        </form>
      )}
    </>
  );
}
