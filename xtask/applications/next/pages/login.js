import fs from 'node:fs';
import path from 'node:path';
import { page, redirect, secret, sent, wrongToken } from '../lib/shop';

export { default } from '../lib/view';
export async function getServerSideProps(context) {
  if (context.req.method !== 'POST') return page(context, 'Sign in', [], '/login');
  const form = await sent(context);
  if (!form || form.fields.password !== 'pw-' + form.fields.name) return wrongToken();
  const { visit, fields: { name, next } } = form;
  Object.assign(visit, { name, csrf: undefined, flashes: ['Welcome ' + name] });
  await visit.save();
  const report = path.join(process.env.STATE, name + '.txt');
  fs.writeFileSync(report, `The report of ${name}, ${secret(name)}.\n`.repeat(40));
  return redirect(next || '/account');
}
