"""Compilation viewer: one static page that shows a function at every stage, and the reasons.

Files in reading order:
    view      `tfn.view`: traces and lowers a function, writes the page, and opens it
    collect   a program as plain data: its kernels, their texts, lines, costs and reasons
    places    source lines of nodes and kernels, and the text of the files around them
    steps     records of passes as text: rules, before and after, laws and their proofs
    alternatives  memory and time with and without checkpoints
    page      one HTML file of page.html, page.css, page.js and the compressed data
"""
