#!/usr/bin/env python3
"""langchain-openai: a chain of a prompt, the model and a parser."""
import sys

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
model = ChatOpenAI(base_url=url + "/v1", api_key="none", model="default", max_tokens=60)
chain = ChatPromptTemplate.from_template("List five {things}.") | model | StrOutputParser()
print(chain.invoke({"things": "animals"}))
